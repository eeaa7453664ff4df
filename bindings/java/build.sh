#!/bin/sh
# Compiles the classes and their library into a folder (target), against the installed library of Reflex, which
# pkg-config finds, with the JDK of JAVA_HOME or of javac.
set -e
cd "$(dirname "$0")"
out=${1:-target}
java=${JAVA_HOME:-$(dirname "$(dirname "$(realpath "$(command -v javac)")")")}
mkdir -p "$out/classes"
"$java/bin/javac" --release 11 -Xlint:all -Werror -d "$out/classes" src/reflex/*.java
"$java/bin/jar" --create --file "$out/reflex.jar" -C "$out/classes" .
# shellcheck disable=SC2046 # flags are words
${CC:-cc} -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -shared -pthread -I "$java/include" -I "$java/include/linux" \
    $(pkg-config --cflags reflex) reflex_jni.c -o "$out/libreflex_jni.so" $(pkg-config --libs reflex)
