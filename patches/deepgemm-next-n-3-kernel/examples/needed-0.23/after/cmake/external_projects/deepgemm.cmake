else()
  # This ref should be kept in sync with tools/install_deepgemm.sh
  FetchContent_Declare(
    deepgemm
    GIT_REPOSITORY https://github.com/deepseek-ai/DeepGEMM.git
    GIT_TAG 57b90e0
    # deepseek-ai/DeepGEMM#340, which no branch contains, in a folder of its own
    SOURCE_DIR "${FETCHCONTENT_BASE_DIR}/deepgemm-pull-340-src"
    GIT_CONFIG "remote.origin.fetch=+refs/pull/340/head:refs/remotes/origin/pull/340"
    GIT_SUBMODULES "third-party/cutlass" "third-party/fmt"
    GIT_PROGRESS TRUE
    CONFIGURE_COMMAND ""
    BUILD_COMMAND ""
  )
endif()
