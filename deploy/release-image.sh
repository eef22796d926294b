#!/bin/bash
# Build the image of a release and push it (`make release-image`). From the environment:
# TAG, such as v0.2.0; IMAGE_REGISTRY and IMAGE, the host of a registry and a name there;
# REGISTRY_USER and REGISTRY_TOKEN, if Docker is not logged in yet.
# In a GitHub workflow the digest of the pushed image is the step's output `digest`.
set -eu
cd "$(dirname "$0")/.."
: "${TAG:?the version to release, such as v0.2.0}"
: "${IMAGE_REGISTRY:?the host of the registry}"
: "${IMAGE:?the name of the image in the registry}"

name="$IMAGE_REGISTRY/$IMAGE"
tag="$name:${TAG#v}"
if [ -n "${REGISTRY_TOKEN:-}" ]; then
  docker login --username "$REGISTRY_USER" --password-stdin "$IMAGE_REGISTRY" <<<"$REGISTRY_TOKEN"
fi
make image IMAGE="$tag"
docker push "$tag"
digest=$(docker image inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' "$tag" |
  sed -n "s|^$name@||p")
[ -n "$digest" ] || {
  echo "Docker reports no digest of $tag after the push" >&2
  exit 1
}
echo "$name@$digest"
echo "digest=$digest" >>"${GITHUB_OUTPUT:-/dev/null}"
