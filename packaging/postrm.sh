#!/bin/sh
# The home stays, and the user whose it is: it is what the daemon remembers.
set -e
[ -n "${DPKG_ROOT:-}" ] || [ ! -d /run/systemd/system ] || systemctl daemon-reload
