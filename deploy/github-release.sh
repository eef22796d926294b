#!/bin/bash
# Make the GitHub release of a tag, with its packages, bill of materials and notes. From the
# environment: TAG, such as v0.2.0, and GH_TOKEN.
set -eu
cd "$(dirname "$0")/.."
: "${TAG:?the version to release, such as v0.2.0}"

shopt -s nullglob
packages=(dist/*.whl dist/*.tar.gz)
[ ${#packages[@]} -gt 0 ] || {
  echo "There is nothing in dist: run make wheel and make sbom" >&2
  exit 1
}
gh release create "$TAG" --verify-tag --title "mqdlq ${TAG#v}" \
  --notes-file var/release-notes.md "${packages[@]}" var/sbom.json
