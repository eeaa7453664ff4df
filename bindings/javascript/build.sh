#!/bin/sh
# Compiles the addon against the installed library, which pkg-config finds.
set -e
cd "$(dirname "$0")"
headers=$(node -p 'require("node-api-headers").include_dir')
# shellcheck disable=SC2046 # flags are words
${CC:-cc} -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -shared -pthread -DNAPI_VERSION=8 \
    -I "$headers" $(pkg-config --cflags reflex) addon.c -o reflex.node $(pkg-config --libs reflex)
