#!/bin/sh
# Makes this machine a node of the fleet that is named below: installs the agent, joins, and starts it. Safe to run again.
#
#   sh install.sh --token-file FILE         join with the token in FILE; or give it as BCD_JOIN_TOKEN
#   sh install.sh --unprivileged            run the node as a user of its own; --privileged takes that back
#   sh install.sh --uninstall [--purge]     remove it; --purge forgets who the node was, too
#
# Whom to believe about releases comes with this file: get it over https, or from somebody you trust.
set -eu

control=@CONTROL@
version=@VERSION@
downloads=@DOWNLOADS@
sha256_amd64=@SHA256_AMD64@
sha256_arm64=@SHA256_ARM64@
rights=@RIGHTS@

program=/usr/lib/bcd/bcd
units=/etc/systemd/system
node_wait_seconds=60

say() { printf '%s\n' "bcd: $*"; }
fail() { printf '%s\n' "bcd: $*" >&2; exit 1; }

# Whether a package manager looks after the program: then it brings the units too, and removes them.
packaged() {
    if command -v dpkg-query >/dev/null 2>&1 && dpkg-query -S "$program" >/dev/null 2>&1; then return 0; fi
    command -v rpm >/dev/null 2>&1 && rpm -qf "$program" >/dev/null 2>&1
}

# The power may go at any time: what has its name is on the disk. An older sync knows no files, and flushes everything.
flush() { sync "$1" 2>/dev/null || sync; }

digest_of() { sha256sum "$1" 2>/dev/null | cut -d ' ' -f 1; }

fetch() {
    if command -v curl >/dev/null 2>&1; then
        curl --fail --silent --show-error --location --max-redirs 3 --connect-timeout 15 --output "$2" "$1"
    elif command -v wget >/dev/null 2>&1; then
        wget --quiet --max-redirect=3 --timeout=15 --output-document="$2" "$1"
    else
        fail "expected curl or wget, found neither"
    fi
}

install_program() {
    case $(uname -m) in
        x86_64 | amd64) platform=linux-amd64 wanted=$sha256_amd64 ;;
        aarch64 | arm64) platform=linux-arm64 wanted=$sha256_arm64 ;;
        *) fail "expected an amd64 or arm64 machine, found $(uname -m)" ;;
    esac
    [ -n "$wanted" ] || fail "release $version has no binary for $platform"
    if [ -x "$program" ] && [ "$(digest_of "$program")" = "$wanted" ]; then return 0; fi
    mkdir -p "${program%/*}"
    # Beside its place, so that the move is one step, and never the file that runs.
    fetched=$(mktemp "${program%/*}/fetched.XXXXXX")
    if ! fetch "$downloads/bcd/$version/$platform" "$fetched"; then
        rm -f "$fetched"
        fail "the agent cannot be fetched from $downloads"
    fi
    found=$(digest_of "$fetched")
    if [ "$found" != "$wanted" ]; then
        rm -f "$fetched"
        fail "expected a file with digest $wanted, found $found"
    fi
    chmod 0755 "$fetched"
    flush "$fetched"
    mv -f "$fetched" "$program"
    if command -v restorecon >/dev/null 2>&1; then restorecon "$program" || true; fi
    say "installed version $version"
}

# Puts standard input where it belongs, and remembers whether that changed anything.
put() {
    mkdir -p "${1%/*}"
    written=$(mktemp "${1%/*}/.bcd.XXXXXX")
    cat >"$written"
    chmod 0644 "$written"
    if cmp -s "$written" "$1"; then
        rm -f "$written"
    else
        flush "$written"
        mv -f "$written" "$1"
        changed=yes
    fi
}

install_units() {
    put "$units/bcd.service" <<'END_OF_FILE'
@@bcd.service@@
END_OF_FILE
    put "$units/bcd-watchdog.service" <<'END_OF_FILE'
@@bcd-watchdog.service@@
END_OF_FILE
    put "$units/bcd-helper.service" <<'END_OF_FILE'
@@bcd-helper.service@@
END_OF_FILE
    put "$units/bcd-helper.socket" <<'END_OF_FILE'
@@bcd-helper.socket@@
END_OF_FILE
    put "$units/bcd-preflight.socket" <<'END_OF_FILE'
@@bcd-preflight.socket@@
END_OF_FILE
    put "$units/bcd-preflight@.service" <<'END_OF_FILE'
@@bcd-preflight@.service@@
END_OF_FILE
    put /usr/lib/bcd/unprivileged.conf <<'END_OF_FILE'
@@unprivileged.conf@@
END_OF_FILE
    put /usr/lib/bcd/older-bcd.conf <<'END_OF_FILE'
@@older-bcd.conf@@
END_OF_FILE
    put /usr/lib/bcd/older-bcd-helper.conf <<'END_OF_FILE'
@@older-bcd-helper.conf@@
END_OF_FILE
    put /usr/lib/bcd/older.sh <<'END_OF_FILE'
@@older.sh@@
END_OF_FILE
    put /etc/sysusers.d/bcd.conf <<'END_OF_FILE'
@@bcd.sysusers@@
END_OF_FILE
    put /etc/tmpfiles.d/bcd.conf <<'END_OF_FILE'
@@bcd.tmpfiles@@
END_OF_FILE
    ln -sfn "$program" /usr/bin/bcd
}

remove_units() {
    rm -f "$units/bcd.service" "$units/bcd-watchdog.service" "$units/bcd-helper.service" "$units/bcd-helper.socket" \
        "$units/bcd-preflight.socket" "$units/bcd-preflight@.service" /etc/sysusers.d/bcd.conf /etc/tmpfiles.d/bcd.conf
}

prepare() {
    if command -v systemd-sysusers >/dev/null 2>&1; then
        systemd-sysusers bcd.conf
    elif ! id bcd >/dev/null 2>&1; then
        useradd --system --home-dir /var/lib/bcd --no-create-home --shell /usr/sbin/nologin bcd
    fi
    systemd-tmpfiles --create bcd.conf
}

configure() {
    config=/etc/bcd/bcd.toml
    if [ ! -e "$config" ]; then
        put "$config" <<'END_OF_FILE'
control = @CONTROL_TOML@

[update]
release_pins = @PINS@
threshold = @THRESHOLD@
END_OF_FILE
    fi
    # What this script says about rights stands between two lines of its own; what the owner says, counts.
    ours=$(mktemp)
    sed '/^# rights: begin$/,/^# rights: end$/d' "$config" >"$ours"
    drop_in=$units/bcd.service.d/unprivileged.conf
    if grep -q '^\[node\]' "$ours"; then
        say "$config has a [node] of its own: it stays as it is"
    elif [ "$rights" = unprivileged ]; then
        printf '%s\n' '# rights: begin' '[node]' 'user = "bcd"' 'helper_socket = "/run/bcd/helper.sock"' '# rights: end' >>"$ours"
    fi
    put "$config" <"$ours"
    rm -f "$ours"
    if [ "$rights" = unprivileged ]; then
        if [ ! -e "$drop_in" ]; then changed=yes; fi
        mkdir -p "${drop_in%/*}"
        ln -sfn /usr/lib/bcd/unprivileged.conf "$drop_in"
    elif [ -h "$drop_in" ]; then
        systemctl stop bcd.service bcd-helper.socket bcd-helper.service 2>/dev/null || true
        rm -f "$drop_in"
        rmdir "${drop_in%/*}" 2>/dev/null || true
        # The unit of a root node has no right to what another user owns.
        chown -R --no-dereference root:root /var/lib/bcd/identity /var/lib/bcd/state
        changed=yes
    fi
}

join() {
    [ ! -e /var/lib/bcd/identity/node.json ] || return 0
    if [ -z "$token_file" ] && [ -n "${BCD_JOIN_TOKEN:-}" ]; then
        token_file=$(umask 077 && mktemp)
        made=$token_file
        printf '%s\n' "$BCD_JOIN_TOKEN" >"$token_file"
    fi
    [ -n "$token_file" ] || fail "expected --token-file or BCD_JOIN_TOKEN, found neither"
    joined=0
    "$program" join --token-file "$token_file" || joined=$?
    [ -z "${made:-}" ] || rm -f "$made"
    [ "$joined" = 0 ] || fail "this machine could not join $control"
}

start() {
    systemctl daemon-reload
    systemctl enable --quiet bcd.service
    if [ "$changed" = yes ]; then
        say "its units or its configuration have changed: it starts anew"
        systemctl restart bcd.service
    else
        systemctl start bcd.service
    fi
    waited=0
    until "$program" status --output json 2>/dev/null | grep -q '"connected":true'; do
        waited=$((waited + 1))
        [ "$waited" -lt $((node_wait_seconds * 5)) ] || fail "no gateway has welcomed this node yet; bcd doctor says why"
        sleep 0.2
    done
    for folder in "${program%/*}" "$units" "$units/multi-user.target.wants" /etc/bcd; do flush "$folder"; done
    say "the node runs, and a gateway has welcomed it"
}

uninstall() {
    if packaged; then fail "a package brought bcd here: remove it with apt-get or dnf"; fi
    systemctl disable --now --quiet bcd.service 2>/dev/null || true
    systemctl stop bcd-watchdog.service bcd-helper.socket bcd-helper.service bcd-preflight.socket 2>/dev/null || true
    remove_units
    rm -f "$program" /usr/bin/bcd /usr/lib/bcd/unprivileged.conf /usr/lib/bcd/older.sh \
        /usr/lib/bcd/older-bcd.conf /usr/lib/bcd/older-bcd-helper.conf \
        "$units/bcd.service.d/older.conf" "$units/bcd-helper.service.d/older.conf"
    rmdir /usr/lib/bcd 2>/dev/null || true
    if [ "$purge" = yes ]; then
        rm -rf /var/lib/bcd /etc/bcd /run/bcd "$units/bcd.service.d/unprivileged.conf"
    fi
    rmdir "$units/bcd.service.d" "$units/bcd-helper.service.d" 2>/dev/null || true
    systemctl daemon-reload
    systemctl reset-failed 'bcd*' 2>/dev/null || true
    say "removed"
}

main() {
    token_file='' purge=no changed=no action=install
    while [ $# -gt 0 ]; do
        case $1 in
            --token-file) [ $# -gt 1 ] || fail "expected a file after --token-file"; token_file=$2; shift ;;
            --token-file=*) token_file=${1#*=} ;;
            --unprivileged) rights=unprivileged ;;
            --privileged) rights=root ;;
            --uninstall) action=uninstall ;;
            --purge) purge=yes ;;
            *) fail "expected --token-file, --unprivileged, --privileged, --uninstall or --purge, found $1" ;;
        esac
        shift
    done
    [ "$(id -u)" = 0 ] || fail "expected to run as root"
    [ -d /run/systemd/system ] || fail "expected a machine with systemd; elsewhere, see bcd supervise"
    umask 022
    if [ "$action" = uninstall ]; then uninstall; return; fi
    if packaged; then
        remove_units
    else
        install_program
        install_units
    fi
    # An older package brings none.
    if [ -f /usr/lib/bcd/older.sh ]; then sh /usr/lib/bcd/older.sh; fi
    systemctl daemon-reload
    prepare
    configure
    join
    start
}

# Everything is read before anything is done.
main "$@"
