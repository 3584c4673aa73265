#!/bin/sh
# tools/in_debian_11.sh [COMMAND [ARGUMENT...]]: runs a command, make test if none is given, in a clone of HEAD under Debian 11, which
# has Python 3.9 and gcc 10: the oldest that README promises. `.ci/run` has newer ones; this is by hand, as root, and needs
# debootstrap. The system is build/debian-11; the network, certificates and settings of pip are this machine's.
set -eu
cd "$(dirname "$0")/.."
system=$PWD/build/debian-11
if [ ! -e "$system/tf_booster" ]; then
  debootstrap --include=python3,python3-venv,python3-dev,g++,make,git,ca-certificates bullseye "$system"
  git clone -q . "$system/tf_booster"
fi
git -C "$system/tf_booster" pull -q --ff-only
cp /etc/ssl/certs/ca-certificates.crt "$system/etc/ssl/certs/"
cp /etc/resolv.conf /etc/hosts "$system/etc/"  # Ranks look their own host up.
[ $# -gt 0 ] || set -- make test
# In a name space of its own, so that no mount is left.
exec unshare --mount sh -ec '
  mount -t proc proc "$0/proc"
  mount --rbind /dev "$0/dev"
  exec chroot "$0" env HOME=/root LANG=C.UTF-8 sh -c "cd /tf_booster && exec \"\$@\"" sh "$@"' "$system" "$@"
