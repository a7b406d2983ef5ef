#!/bin/sh
# End the daemon, and remove what postinst compiled.
set -e
if [ "$1" = remove ] && [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
    systemctl disable --now narval-web.service narval.service || true
fi
[ -n "${DPKG_ROOT:-}" ] || find /opt/narval -depth -name __pycache__ -exec rm -rf {} +
