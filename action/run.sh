#!/usr/bin/env bash
# What action.yml runs, in the root of the project's repository:
#
#   run.sh check [RELEASE [RECIPE]...]
#   run.sh test
#   run.sh bump RELEASE [RECIPE]...
#
# FAIL_ON is the least severity for which check fails. With REPORTS, check writes the audits of the
# recipes into this folder, in the formats of FORMAT (sarif). On GitHub, it also writes the summary
# of the job, annotations and outputs: see report.py.
#
# Each command that fails ends it, with its message. A list of words is written to a file first, since
# the shell does not look at how a command in <( ) or in an argument ended.
set -euo pipefail

fail() {
  printf 'error: %s\n  next: %s\n' "$2" "$3" >&2
  if [ -n "${report:-}" ]; then printf '%s\nnext: %s' "$2" "$3" >"$report/failure"; fi
  exit "$1"
}

status=0
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
reports=${REPORTS:-}
summary=${GITHUB_STEP_SUMMARY:-}
# The token is for vpatch alone: no other program gets it from here.
token=${GH_TOKEN:-}
unset GH_TOKEN
report=$(mktemp -d)
steps=0
# What vpatch prints may have texts of others. GitHub obeys none of it until this word.
quiet=
if [ "${GITHUB_ACTIONS:-}" = true ]; then
  quiet=vpatch-$RANDOM$RANDOM$RANDOM
  echo "::stop-commands::$quiet"
fi

finish() {
  local code=$?
  trap - EXIT
  if [ -n "$quiet" ]; then echo "::$quiet::"; fi
  if [ -n "$quiet$reports$summary" ]; then
    python3 "$here/report.py" finish "$report" "$code" || { if [ "$code" -eq 0 ]; then code=1; fi; }
  fi
  rm -rf "$report"
  exit "$code"
}
trap finish EXIT

# A pull request of a fork has no secrets, and its code must not get any.
fork=
case "${GITHUB_EVENT_NAME:-}" in
  pull_request*) python3 "$here/report.py" is-own || fork=yes ;;
esac
if [ -n "$fork" ]; then
  echo 'a pull request from a fork: nothing is uploaded, and nothing is pushed'
  if [ "$GITHUB_EVENT_NAME" = pull_request_target ]; then
    fail 2 'pull_request_target gives the code of a fork the secrets of this repository' \
      'let the workflow run on pull_request'
  fi
fi

# Say something in the log and in the summary.
note() {
  echo "$1"
  echo "$1" >>"$report/notes"
}

# Run vpatch for the log, and keep its answer for the summary: step KIND NAME WORD...
step() {
  local kind=$1 name=$2 code=0 folder form
  shift 2
  steps=$((steps + 1))
  folder=$report/steps/$(printf '%05d' "$steps")
  mkdir -p "$folder"
  if [ -z "$quiet$reports$summary" ]; then
    vpatch "$@" || status=$?
    return
  fi
  # Tests take long, so they run once.
  case $kind in
    test)
      vpatch "$@" --json >"$folder/answer.json" || code=$?
      python3 "$here/report.py" tests "$folder"
      ;;
    show) vpatch "$@" --json >"$folder/answer.json" 2>"$folder/errors" || true ;;
    *)
      vpatch "$@" || code=$?
      vpatch "$@" --json >"$folder/answer.json" 2>"$folder/errors" || true
      ;;
  esac
  printf '%s' "$kind" >"$folder/kind"
  printf '%s' "$name" >"$folder/name"
  printf '%s' "$code" >"$folder/code"
  if [ "$code" -ne 0 ]; then status=$code; fi
  if [ "$kind" != audit ] || [ "$code" -gt 1 ]; then return; fi
  for form in markdown "${formats[@]}"; do
    # Its findings are counted above.
    code=0
    vpatch "$@" --format "$form" >"$folder/document.$form" || code=$?
    if [ "$code" -gt 1 ]; then status=$code; fi
  done
}

list() {
  if [ ! -e "$report/list.json" ]; then vpatch list --trust --json >"$report/list.json"; fi
}

# The names of the project's own recipes, each with a NUL behind it: those below the current folder.
own_recipes() {
  list
  python3 - "$report/list.json" >"$report/recipes" <<'PYTHON'
import json, sys
from pathlib import Path
with open(sys.argv[1], encoding="utf-8") as file:
    recipes = json.load(file)["result"]["recipes"]
here = Path.cwd().resolve()
own = [one["name"] for one in recipes if Path(one["file"]).resolve().is_relative_to(here)]
sys.stdout.write("".join(f"{name}\0" for name in own))
PYTHON
}

# Show what the patches that a pull request changes make of the releases of some recipes.
show_changed() {
  local base head patch recipe
  python3 "$here/report.py" commits >"$report/commits"
  { IFS= read -r base && IFS= read -r head; } <"$report/commits"
  # actions/checkout takes the merge of both, which GitHub made.
  if [ "$(git rev-parse --verify --quiet 'HEAD^2' || true)" = "$head" ]; then
    base='HEAD^1'
  elif ! base=$(git merge-base "$base" HEAD 2>/dev/null); then
    note 'The diffs of changed patches need the commit before: give actions/checkout fetch-depth: 2.'
    return
  fi
  git diff --relative --name-only --no-renames -z "$base" HEAD >"$report/changed"
  list
  python3 "$here/report.py" patches "$report/list.json" "$report/changed" >"$report/patches"
  while IFS= read -r -d '' patch; do
    for recipe in "$@"; do step show "$patch" show "$patch" --diff --recipe "$recipe" --trust; done
    if [ $# -eq 0 ]; then note "$patch changed, and there is no recipe of its own to show it for."; fi
  done <"$report/patches"
}

check() {
  local lock recipe form locks=0 formats=() least=()
  if [ -n "$reports" ]; then read -r -d '' -a formats <<<"${FORMAT:-sarif}" || true; fi
  for form in "${formats[@]}"; do
    case $form in
      sarif | openvex | cyclonedx | markdown) ;;
      *) fail 2 "there is no format '$form'" 'name some of sarif, openvex, cyclonedx and markdown' ;;
    esac
  done
  if [ -n "${FAIL_ON:-}" ]; then least=(--fail-on "$FAIL_ON"); fi
  if ! git ls-files -z -- vpatch.lock '*/vpatch.lock' >"$report/locks"; then
    fail 2 'git does not list the files of the repository, so nothing is checked' \
      "see git's message; in a container, first run: git config --global --add safe.directory '$PWD'"
  fi
  while IFS= read -r -d '' lock; do
    locks=$((locks + 1))
    step check "$lock" check --lock "$lock" --trust
  done <"$report/locks"
  if [ $# -eq 0 ]; then
    own_recipes
    while IFS= read -r -d '' recipe; do set -- "$@" "$recipe"; done <"$report/recipes"
  fi
  if [ "$locks" -eq 0 ] && [ $# -eq 0 ]; then
    fail 2 "nothing to check: $PWD has no committed vpatch.lock, and no recipe of its own" \
      'commit vpatch.lock or a recipe, or run this in the root of the repository'
  fi
  if [ "$locks" -eq 0 ]; then echo 'no vpatch.lock is committed: only recipes are checked'; fi
  if [ $# -eq 0 ]; then echo 'no recipe of its own: only locks are checked'; fi
  for recipe in "$@"; do
    step audit "$recipe" audit --recipe "$recipe" --trust "${least[@]}"
  done
  if [ "${GITHUB_EVENT_NAME:-}" = pull_request ] && [ -n "$summary" ]; then show_changed "$@"; fi
}

# The examples of the project's own patches.
run_tests() {
  local patches=() patch
  list
  python3 "$here/report.py" patches "$report/list.json" >"$report/patches"
  while IFS= read -r -d '' patch; do patches+=("$patch"); done <"$report/patches"
  if [ "${#patches[@]}" -eq 0 ]; then
    fail 2 "nothing to test: $PWD has no patch of its own" 'run this in the root of the repository'
  fi
  step test 'the patches' test "${patches[@]}" --trust
}

# vpatch and its git take no login from the repository's settings, and no token from the environment.
# So the login is in settings of this job. No program has the token as an argument.
log_in() {
  local server=${GITHUB_SERVER_URL:-https://github.com} login file
  local files=("${XDG_CONFIG_HOME:-$HOME/.config}/git/config" "$HOME/.gitconfig")
  if [ -n "${GIT_CONFIG_GLOBAL+set}" ]; then files=("$GIT_CONFIG_GLOBAL"); fi
  login=$(printf 'x-access-token:%s' "$token" | base64 | tr -d '\n')
  (umask 077 && : >"$report/gitconfig")
  {
    for file in "${files[@]}"; do
      if [ -n "$file" ]; then printf '[include]\n\tpath = "%s"\n' "$file"; fi
    done
    printf '[http "%s/"]\n\textraheader = "AUTHORIZATION: basic %s"\n' "$server" "$login"
    printf '[url "%s/"]\n' "$server"
    printf '\tinsteadOf = "%s"\n' "git@${server#*://}:" "ssh://git@${server#*://}/"
  } >>"$report/gitconfig"
}

bump() {
  local release=$1 branch pull there=0
  shift
  git rev-parse --git-dir >/dev/null
  git config user.name >/dev/null || git config user.name 'github-actions[bot]'
  git config user.email >/dev/null ||
    git config user.email '41898282+github-actions[bot]@users.noreply.github.com'
  set -- "$@" --to "$release"
  if [ -z "$fork" ]; then set -- "$@" --write; fi
  set -- "$@" --trust --output "$report/report.md" --json
  if [ -z "$token" ] || [ -n "$fork" ]; then
    vpatch bump "$@" >"$report/answer.json" || status=$?
  else
    log_in
    GH_TOKEN=$token GIT_CONFIG_GLOBAL=$report/gitconfig \
      vpatch bump "$@" --pr >"$report/answer.json" || status=$?
  fi
  if [ -e "$report/report.md" ] && [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    head -c 900000 "$report/report.md" >>"$GITHUB_STEP_SUMMARY"
  fi
  if [ ! -s "$report/answer.json" ]; then
    if [ "$status" -eq 0 ]; then status=3; fi
    fail "$status" 'vpatch bump ended without an answer' 'see the message above'
  fi
  # Without --write there is no branch, and the report says the rest.
  if [ -n "$fork" ]; then return; fi
  python3 - "$report/answer.json" >"$report/branch" <<'PYTHON'
import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    result = json.load(file)["result"] or {}
written = result.get("written") or {}
# Nothing can be made of a branch that waits for a person.
print("" if written.get("unsettled") else written.get("branch", ""))
print((result.get("pull") or {}).get("said", ""))
PYTHON
  {
    IFS= read -r branch
    IFS= read -r pull
  } <"$report/branch"
  if [ -z "$branch" ]; then
    if [ "$status" -eq 0 ]; then echo "no recipe has anything to do"; fi
    return
  fi
  # The patches that somebody has to look at are in the report.
  status=0
  if [ -n "$pull" ]; then
    echo "$pull"
    return
  fi
  git ls-remote --exit-code --heads origin "refs/heads/$branch" >/dev/null || there=$?
  case $there in
    0) echo "origin has a branch $branch already" ;;
    2)
      git push --quiet origin "refs/heads/$branch"
      echo "pushed $branch"
      echo "no token: open the pull request yourself"
      ;;
    *) fail 4 "origin cannot be read, so $branch is not pushed" "see git's message" ;;
  esac
}

if [ "${1:-}" != check ]; then
  if [ -n "${FAIL_ON:-}" ]; then option=fail-on; elif [ -n "${FORMAT:-}" ]; then option=format; fi
  if [ -n "${option:-}" ]; then
    fail 2 "$option has no effect with run: ${1:-}" 'leave it out, or write run: check'
  fi
fi
case "${1:-} $#" in
  "check "*)
    shift
    if [ $# -gt 0 ]; then shift; fi
    check "$@"
    ;;
  "test 1" | "test 2") run_tests ;;
  "test "*) fail 2 'recipes has no effect with run: test, which tests all patches' 'leave it out' ;;
  "bump 1") fail 2 'bump needs a release' "$0 bump latest" ;;
  "bump "*)
    shift
    bump "$@"
    ;;
  *) fail 2 "run is check, test or bump, not '${1:-}'" "$0 check, $0 test, or $0 bump RELEASE" ;;
esac
exit "$status"
