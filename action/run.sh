#!/usr/bin/env bash
# What action.yml runs, in the root of the project's repository: run.sh check|bump RELEASE [RECIPE]...
set -euo pipefail

report=$(mktemp -d)
trap 'rm -rf "$report"' EXIT
status=0

check() {
  local lock recipe
  while IFS= read -r -d '' lock; do
    vpatch check --lock "$lock" --trust || status=$?
  done < <(git ls-files -z -- vpatch.lock '*/vpatch.lock')
  if [ $# -eq 0 ]; then
    for recipe in recipes/*.yaml; do
      if [ -e "$recipe" ]; then set -- "$@" "$(basename "$recipe" .yaml)"; fi
    done
  fi
  for recipe in "$@"; do
    vpatch audit --recipe "$recipe" --trust || status=$?
  done
}

bump() {
  local release=$1 branch said
  shift
  git config user.name >/dev/null || git config user.name 'github-actions[bot]'
  git config user.email >/dev/null ||
    git config user.email '41898282+github-actions[bot]@users.noreply.github.com'
  if [ -n "${GH_TOKEN:-}" ]; then set -- "$@" --pr; fi
  vpatch bump "$@" --to "$release" --write --trust --output "$report/report.md" --json \
    >"$report/answer.json" || status=$?
  if [ -e "$report/report.md" ] && [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    head -c 900000 "$report/report.md" >>"$GITHUB_STEP_SUMMARY"
  fi
  {
    read -r branch
    read -r said
  } < <(python3 - "$report/answer.json" <<'PYTHON'
import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    result = json.load(file)["result"] or {}
print((result.get("written") or {}).get("branch", ""))
print((result.get("pull") or {}).get("said", ""))
PYTHON
  )
  if [ -z "$branch" ]; then
    if [ "$status" -eq 0 ]; then echo "no recipe has anything to do"; fi
    return
  fi
  # The patches that somebody has to look at are in the report.
  status=0
  if [ -n "$said" ]; then
    echo "$said"
  elif git ls-remote --exit-code --heads origin "refs/heads/$branch" >/dev/null; then
    echo "origin has a branch $branch already"
  else
    git push --quiet origin "refs/heads/$branch"
    echo "pushed $branch"
    echo "no token: open the pull request yourself"
  fi
}

run=$1
shift
case $run in
  check) shift && check "$@" ;;
  bump) bump "$@" ;;
  *) echo "run is check or bump, not $run" >&2 && exit 2 ;;
esac
exit "$status"
