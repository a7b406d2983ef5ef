#!/bin/sh
# The home and its user stay: the home is what the daemon remembers.
set -e
[ -n "${DPKG_ROOT:-}" ] || [ ! -d /run/systemd/system ] || systemctl daemon-reload
