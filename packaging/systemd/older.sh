#!/bin/sh
# A package brings newer units, and leaves the slots alone. A binary there that does not know bcd-preflight would have every
# release fail that it tries out: until none is left, the units leave it the rights that it was made for.
set -eu

older=no changed=no
for binary in /var/lib/bcd/slots/a/bcd /var/lib/bcd/slots/b/bcd; do
    if [ -f "$binary" ] && ! grep -q -F /run/bcd/preflight.sock "$binary"; then older=yes; fi
done
for unit in bcd bcd-helper; do
    link=/etc/systemd/system/$unit.service.d/older.conf
    if [ "$older" = yes ] && [ ! -h "$link" ]; then
        mkdir -p "${link%/*}"
        ln -s "/usr/lib/bcd/older-$unit.conf" "$link"
        changed=yes
    elif [ "$older" = no ] && [ -h "$link" ]; then
        rm -f "$link"
        rmdir "${link%/*}" 2>/dev/null || true
        changed=yes
    fi
done
if [ "$changed" = yes ] && [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
