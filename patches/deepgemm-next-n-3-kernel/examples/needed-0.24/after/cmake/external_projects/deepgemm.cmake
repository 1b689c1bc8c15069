else()
  # Keep in sync with tools/install_deepgemm.sh
  set(_DEEPGEMM_UPSTREAM_REPO "https://github.com/deepseek-ai/DeepGEMM.git")
  # deepseek-ai/DeepGEMM#340, which no branch contains
  set(_DEEPGEMM_UPSTREAM_REF "refs/pull/340/head")
  set(_DEEPGEMM_UPSTREAM_TAG "57b90e0")

  set(_deepgemm_fc_root "${FETCHCONTENT_BASE_DIR}")
  if(NOT _deepgemm_fc_root)
    set(_deepgemm_fc_root "${CMAKE_BINARY_DIR}/_deps")
  endif()
  # Not the folder that an earlier build may have filled with another commit.
  set(_deepgemm_src "${_deepgemm_fc_root}/deepgemm-pull-340-src")

  if(EXISTS "${_deepgemm_src}/csrc/python_api.cpp")
    set(deepgemm_SOURCE_DIR "${_deepgemm_src}")
  else()
    FetchContent_Populate(
      deepgemm
      SOURCE_DIR "${_deepgemm_src}"
      GIT_REPOSITORY "${_DEEPGEMM_UPSTREAM_REPO}"
      GIT_CONFIG "remote.origin.fetch=+${_DEEPGEMM_UPSTREAM_REF}:refs/remotes/origin/pull/340"
      GIT_TAG "${_DEEPGEMM_UPSTREAM_TAG}"
      GIT_SUBMODULES "third-party/cutlass" "third-party/fmt"
      GIT_PROGRESS TRUE
    )
  endif()
endif()
