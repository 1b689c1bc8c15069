# Installs Debian's packages that vLLM needs on a CPU, and lists those that were not there before.
# `pins` has the packages of an earlier build as NAME=VERSION, or nothing.
set -eu
# What the engine writes as it makes the container is older than a second then, and stays.
sleep 1
started=$(date +%s)
here="$(dirname "$0")"
room="$(mktemp -d)"
export DEBIAN_FRONTEND=noninteractive PYTHONDONTWRITEBYTECODE=1

installed() {
    dpkg-query --show --showformat='${db:Status-Abbrev}${Package}=${Version}\n' \
        | sed -n 's/^ii *//p' | LC_ALL=C sort
}

install() {
    # A layer that is not whole is thrown away: dpkg need not wait for the disk after each file.
    apt-get install --yes --no-install-recommends -o Dpkg::Options::=--force-unsafe-io "$@"
}

leftovers() {
    find /var/cache/apt /var/lib/apt/lists /var/log /var/cache/ldconfig /var/cache/debconf/*-old \
        /var/lib/dpkg/*-old -type f 2>/dev/null | LC_ALL=C sort
}

leftovers > "$room/had"
installed > "$room/before"
apt-get update
if [ -s "$here/pins" ]; then
    # One word for each package.
    # shellcheck disable=SC2046
    install $(cat "$here/pins")
else
    # vLLM's CPU kernels link libnuma. Torch compiles others, against Python's headers.
    install ca-certificates g++ libnuma1
    headers="$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')"
    if [ ! -e "$headers/Python.h" ]; then install python3-dev; fi
fi
installed > "$room/after"
mkdir -p /opt/vllm/installed
LC_ALL=C comm -13 "$room/before" "$room/after" > /opt/vllm/installed/apt.txt

# A user who is not root has a home: as in vLLM's own image, and for anybody in the group 0.
if ! grep -q '^vllm:' /etc/passwd; then
    echo 'vllm:x:2000:0::/home/vllm:/bin/sh' >> /etc/passwd
fi
mkdir -p /home/vllm/.cache /home/vllm/.config
chown -R 2000:0 /home/vllm
chmod -R g+rwX /home/vllm

# What this step left is removed. A file that the base has is emptied: a layer marks a removed one
# with the time of the build.
leftovers | LC_ALL=C comm -13 "$room/had" - | xargs rm -f
while read -r file; do
    # apt replaced it by another.
    if [ ! -e "$file" ] && [ -d "${file%/*}" ]; then : > "$file"; fi
done < "$room/had"
leftovers | while read -r file; do
    if [ "$(stat --format=%Y "$file")" -ge "$started" ]; then : > "$file"; fi
done
rm -r "$room"
python3 "$here/settle.py" "$started" "$(cat "$here/epoch")"
