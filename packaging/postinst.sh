#!/bin/sh
# Create the user and its home. Nothing is started: an empty home has nothing to do.
set -e
if [ "$1" = configure ] && [ -z "${DPKG_ROOT:-}" ]; then
    id narval >/dev/null 2>&1 || useradd --system --user-group --home-dir /var/lib/narval --shell /usr/sbin/nologin narval
    install -d -o narval -g narval -m 0700 /var/lib/narval
    /opt/narval/bin/python -m compileall -q /opt/narval/lib || true
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload
        systemctl try-restart narval.service narval-web.service || true  # the running programs are of the former release
    fi
fi
