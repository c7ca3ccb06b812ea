#!/bin/sh
# Starts a PostgreSQL of its own for the comparison, in the folder $1, and stays until its standard input is closed.
# Installs the server (Debian's package) when it is missing and this is root; says so and ends with 3 when it cannot.
# Prints one line, the folder of its socket, when it takes connections.
set -eu
folder=$1
find_server() { ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1; }
bin=$(find_server)
if [ -z "$bin" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    # Without the package's own cluster: this one makes its own.
    mkdir -p /etc/postgresql-common
    [ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends postgresql; } >&2 || true
    bin=$(find_server)
fi
if [ -z "$bin" ]; then
    echo "the comparison with PostgreSQL is skipped: no server is installed, and this is not root on Debian" >&2
    exit 3
fi
run() { "$@"; }
if [ "$(id -u)" = 0 ]; then
    # The server refuses to run as root.
    chown postgres "$folder"
    run() { setpriv --reuid=postgres --regid=postgres --init-groups -- "$@"; }
fi
cd "$folder"
run "$bin/initdb" -D "$folder/data" -U bench --auth=trust --no-sync >&2
stop() { run "$bin/pg_ctl" -D "$folder/data" -m immediate stop >&2 || true; }
trap stop EXIT
# As much memory as the data needs, parallel workers on both cores, and no durability: the best that it can do.
run "$bin/pg_ctl" -D "$folder/data" -w -l "$folder/log" start -o "-c listen_addresses= -c unix_socket_directories=$folder \
    -c shared_buffers=4GB -c work_mem=512MB -c maintenance_work_mem=1GB -c effective_cache_size=8GB -c fsync=off -c synchronous_commit=off \
    -c full_page_writes=off -c max_wal_size=8GB -c jit=off -c random_page_cost=1.1" >&2
echo "$folder"
cat >/dev/null
