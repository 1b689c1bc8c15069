#!/usr/bin/env bash
# What action.yml runs, in the root of the project's repository:
#
#   run.sh check [RELEASE [RECIPE]...]
#   run.sh bump RELEASE [RECIPE]...
#
# Each command that fails ends it, with its message. A list of words is written to a file first, since
# the shell does not look at how a command in <( ) or in an argument ended.
set -euo pipefail

fail() {
  printf 'error: %s\n  next: %s\n' "$2" "$3" >&2
  exit "$1"
}

status=0
# The token is for vpatch alone: no other program gets it from here.
token=${GH_TOKEN:-}
unset GH_TOKEN
report=$(mktemp -d)
trap 'rm -rf "$report"' EXIT

# The names of the project's own recipes, each with a NUL behind it: those below the current folder.
own_recipes() {
  vpatch list --trust --json >"$report/list.json"
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

check() {
  local lock recipe locks=0
  if ! git ls-files -z -- vpatch.lock '*/vpatch.lock' >"$report/locks"; then
    fail 2 'git does not list the files of the repository, so nothing is checked' \
      "see git's message; in a container, first run: git config --global --add safe.directory '$PWD'"
  fi
  while IFS= read -r -d '' lock; do
    locks=$((locks + 1))
    vpatch check --lock "$lock" --trust || status=$?
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
    vpatch audit --recipe "$recipe" --trust || status=$?
  done
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
  set -- "$@" --to "$release" --write --trust --output "$report/report.md" --json
  if [ -z "$token" ]; then
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
  python3 - "$report/answer.json" >"$report/branch" <<'PYTHON'
import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    result = json.load(file)["result"] or {}
print((result.get("written") or {}).get("branch", ""))
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

case "${1:-} $#" in
  "check "*)
    shift
    if [ $# -gt 0 ]; then shift; fi
    check "$@"
    ;;
  "bump 1") fail 2 'bump needs a release' "$0 bump latest" ;;
  "bump "*)
    shift
    bump "$@"
    ;;
  *) fail 2 "run is check or bump, not '${1:-}'" "$0 check, or $0 bump RELEASE" ;;
esac
exit "$status"
