#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs into a folder of its own and uses what lies there as a stranger would: through pkg-config and through CMake, under
# our names and under Mercury's. Arguments: build folder, source folder, prefix, libdir, "shared" or "static". Environment:
# CC, CXX, SANITIZE.
set -euo pipefail

build="$1"
source="$2"
prefix="$3"
libdir="$4"
kind="$5"
for tool in cmake pkg-config meson; do
    command -v "$tool" >/dev/null || { echo "skipped: no $tool here"; exit 77; }
done

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $*" >&2
    exit 1
}
# run_quietly WHAT COMMAND...: shows the output only if it fails.
run_quietly() {
    local what="$1"
    shift
    "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$what"; }
}

# --- static: an installation that was configured for static libraries, whose archives are made of the objects that are
# there already; compiled is only what differs: the list of plugins, and how they tell of themselves.
# archive NAME OBJECTS...: in the folder where the static build would have put it.
archive() {
    local out="$static/$1"
    shift
    mkdir -p "$(dirname "$out")"
    ar qcs "$out" "$@"
}
if [ "$kind" = static ]; then
    static="$work/static"
    run_quietly "configuring static libraries" meson setup "$static" "$source" "--prefix=$prefix" "--libdir=$libdir" \
        -Ddefault_library=static -Dplugins=static -Dtests=false -Dtools=false -Ddocs=false -Dbuildtype=debug \
        "-Db_sanitize=${SANITIZE_MESON:-none}" -Db_lundef=false
    mapfile -t own < <(ninja -C "$static" -t targets all |
        sed -nE 's,^(na/libcinnabar-na\.a\.p/(plugin_table|[^:]*_(ofi|ucx)_plugin)\.cpp\.o):.*,\1,p')
    run_quietly "compiling what differs" ninja -C "$static" "${own[@]}"
    mapfile -t na < <(find "$build"/na/libcinnabar-na.so*.p -name '*.o' ! -name plugin_table.cpp.o
        find "$build"/plugins/modules/*.p -name '*.o' ! -name '*_plugin.cpp.o')
    archive na/libcinnabar-na.a "${na[@]}" "${own[@]/#/$static/}"
    mapfile -t hg < <(find "$build"/hg/libcinnabar.so*.p "$build"/bulk/*.p -name '*.o')
    archive hg/libcinnabar.a "${hg[@]}"
    mapfile -t util < <(find "$build"/util/*.p -name '*.o')
    archive util/libcinnabar-util.a "${util[@]}"
    build="$static"
fi

run_quietly "meson install" env DESTDIR="$work/root" meson install -C "$build" --no-rebuild
root="$work/root$prefix"
case "$libdir" in
/*) libs="$work/root$libdir" ;;
*) libs="$root/$libdir" ;;
esac
export LD_LIBRARY_PATH="$libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
# From here on only what was installed counts, wherever the build folder's libraries were to be found.
unset NA_PLUGIN_PATH

# --- sonames: programs ask for the version of the binary interface, links lead to the file
check_sonames() {
    local name link soname
    for name in cinnabar cinnabar-na cinnabar-util; do
        for link in "lib$name.so" "lib$name.so.0"; do
            [ -L "$libs/$link" ] || fail "$link is not a link"
        done
        soname="$(objdump -p "$libs/lib$name.so" | awk '$1 == "SONAME" { print $2 }')"
        [ "$soname" = "lib$name.so.0" ] || fail "the soname of lib$name is $soname"
        if objdump -p "$libs/lib$name.so" | grep -E 'R(UN)?PATH' | grep -q "$build"; then
            fail "lib$name still points into the build folder"
        fi
    done
    echo "ok: sonames"
}
if [ "$kind" = shared ]; then check_sonames; fi

# The tree lies elsewhere than it was configured for, and nobody says where: tools find their libraries, these their plugins,
# all of them.
if [ -x "$root/bin/hg_info" ]; then
    for tool in "$root"/bin/*; do
        if [[ "$(env -u LD_LIBRARY_PATH ldd "$tool")" == *"not found"* ]]; then fail "$tool does not find its libraries"; fi
    done
    listed="$(env -u LD_LIBRARY_PATH "$root/bin/hg_info" -s -c)"
    grep -q '^na,sm,shm$' <<<"$listed" || fail "the installed hg_info"
    for module in "$libs"/cinnabar/libna_plugin_*.so; do
        [ -e "$module" ] || continue
        name="$(basename "$module" .so)"
        grep -q "^${name#libna_plugin_}," <<<"$listed" || fail "the installed $name is not found beside the library"
    done
    echo "ok: tools"
fi

# --- does it run? FOLDER with hello and consumer
check_programs() {
    local address="na+sm://packaging-$$" server answer=""
    "$1/consumer" | grep -q "na works" || fail "$2: the NA program"
    "$1/hello" "$address" &
    server=$!
    # Until it answers, or for 30 s.
    for _ in $(seq 300); do
        answer="$(timeout 30 "$1/hello" "$address" 2 3 2>/dev/null)" || true
        if [ "$answer" = "5 (HG_SUCCESS)" ] || ! kill -0 "$server"; then break; fi
        sleep 0.1
    done
    kill -9 "$server"
    wait "$server" 2>/dev/null || true
    [ "$answer" = "5 (HG_SUCCESS)" ] || fail "$2: 2 + 3 is \"$answer\""
    if ldd "$1/hello" | grep cinnabar | grep -qv "$libs"; then fail "$2: libraries from elsewhere"; fi
    if [ "$kind" = static ] && ldd "$1/hello" | grep -q cinnabar; then fail "$2: a shared library of ours"; fi
    echo "ok: $2"
}

# --- pkg-config
export PKG_CONFIG_SYSROOT_DIR="$work/root"
export PKG_CONFIG_PATH="$libs/pkgconfig"
flags() { if [ "$kind" = static ]; then pkg-config --static "$@"; else pkg-config "$@"; fi; }
by_pkg_config() {
    local rpc="$1" na="$2" out="$work/pkg-$1"
    mkdir "$out"
    # shellcheck disable=SC2046,SC2086 # lists of options
    run_quietly "pkg-config $rpc" $CC $SANITIZE -std=c11 -o "$out/hello" "$source/docs/examples/hello_c/hello.c" \
        $(flags --cflags --libs "$rpc")
    # shellcheck disable=SC2046,SC2086
    run_quietly "pkg-config $na" $CXX $SANITIZE -std=c++20 -o "$out/consumer" "$source/test/packaging/consumer.cpp" \
        $(flags --cflags --libs "$na")
    check_programs "$out" "pkg-config $rpc, $na"
}
# A C++ service, by the command that the README says.
cxx_by_pkg_config() {
    # shellcheck disable=SC2046,SC2086
    run_quietly "pkg-config cinnabar, C++" $CXX $SANITIZE -std=c++20 "$source/docs/examples/hello_cxx/hello.cpp" \
        $(flags --cflags --libs cinnabar) -o "$work/hello_cxx"
    mkfifo "$work/address"
    "$work/hello_cxx" server na+sm >"$work/address" &
    local address answer
    read -r -t 60 address <"$work/address" || fail "the C++ server says no address"
    answer="$(timeout 60 "$work/hello_cxx" client "$address" 2 3)" || fail "the C++ client"
    [ "$answer" = 5 ] || fail "C++: 2 + 3 is \"$answer\""
    "$work/hello_cxx" stop "$address" && wait $! || fail "the C++ server does not end"
    echo "ok: pkg-config cinnabar, C++"
}
cxx_by_pkg_config
by_pkg_config cinnabar cinnabar-na
mercury_compat=yes
[ -f "$libs/pkgconfig/mercury.pc" ] || mercury_compat=""
if [ -n "$mercury_compat" ]; then
    by_pkg_config mercury na
    # Whoever asks for mercury gets its utilities, too.
    # shellcheck disable=SC2046,SC2086
    run_quietly "pkg-config mercury: utilities" $CC $SANITIZE -std=c99 -o "$work/utilities" "$source/test/compat/util.c" \
        $(flags --cflags --libs mercury)
    "$work/utilities" || fail "the utilities do not work"
    pkg-config --exists 'mercury_util >= 4' || fail "mercury_util.pc does not say which interface it offers"
    echo "ok: utilities"
    pkg-config --exists 'mercury >= 2.4' || fail "mercury.pc does not say which interface it offers"
    for name in mercury na mercury_util; do
        [ "$(pkg-config --variable=libdir "$name")" = "$libs" ] || fail "$name.pc does not say where the libraries are"
    done
    # Those who look for the libraries themselves.
    if [ "$kind" = shared ]; then
        for names in "-lmercury -lna -lmercury_util" "-lmercury"; do
            # shellcheck disable=SC2086
            run_quietly "$names" env -u LD_LIBRARY_PATH $CC $SANITIZE -std=c11 -o "$work/by-name" \
                "$source/docs/examples/hello_c/hello.c" "-I$root/include" "-L$libs" $names "-Wl,-rpath,$libs"
            [[ "$(env -u LD_LIBRARY_PATH ldd "$work/by-name")" == *"libcinnabar-na.so.0 => $libs"* ]] || fail "$names is not ours"
        done
        # What is inline in Mercury's headers needs no library but that, named or as a file.
        cat >"$work/inline.c" <<'TEXT'
#include <mercury.h>
#include <mercury_event.h>
#include <mercury_thread_condition.h>
#include <mercury_time.h>
#include <na.h>
int main(void) {
    hg_time_t now;
    bool set = true;
    hg_thread_cond_t condition = HG_THREAD_COND_INITIALIZER;
    hg_thread_mutex_t mutex = HG_THREAD_MUTEX_INITIALIZER;
    hg_thread_mutex_lock(&mutex);
    (void) hg_thread_cond_timedwait(&condition, &mutex, 1);
    hg_thread_mutex_unlock(&mutex);
    return HG_Class_get_name(NULL) == NULL && NA_Get_class_name(NULL) == NULL && hg_time_get_current(&now) == 0 &&
                   hg_event_get(-1, &set) != 0 && hg_time_stamp() != NULL
               ? 0
               : 1;
}
TEXT
        for names in "-L$libs -lmercury" "$libs/libmercury.so"; do
            # shellcheck disable=SC2086
            run_quietly "$names alone" env -u LD_LIBRARY_PATH $CC $SANITIZE -std=c11 -o "$work/inline" "$work/inline.c" \
                "-I$root/include" $names "-Wl,-rpath,$libs"
            env -u LD_LIBRARY_PATH "$work/inline" || fail "$names alone"
        done
        # Nobody needs at run time what he does not use.
        if objdump -p "$work/by-name" | grep -q 'NEEDED.*cinnabar-util'; then fail "-lmercury needs the utilities"; fi
        echo "ok: -lmercury"
    fi
fi
unset PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_PATH

# --- CMake: PACKAGE VERSION RPC-TARGET NA-TARGET
by_cmake() {
    local dir="$work/cmake-$1-$2"
    mkdir "$dir"
    sed -e "s/@PACKAGE@/$1/; s/@VERSION@/$2/; s/@RPC@/$3/; s/@NA@/$4/" "$source/test/packaging/CMakeLists.txt.in" \
        >"$dir/CMakeLists.txt"
    cp "$source/docs/examples/hello_c/hello.c" "$source/test/packaging/consumer.cpp" "$dir"
    run_quietly "CMake finds $1" cmake -G Ninja -S "$dir" -B "$dir/build" "-DCMAKE_PREFIX_PATH=$root" \
        "-DCMAKE_C_FLAGS=$SANITIZE" "-DCMAKE_CXX_FLAGS=$SANITIZE" "-DCMAKE_LIBRARY_PATH=$libs"
    run_quietly "CMake builds with $1" cmake --build "$dir/build"
    check_programs "$dir/build" "CMake $1"
}
by_cmake cinnabar 0.1 cinnabar::cinnabar cinnabar::na
if [ -n "$mercury_compat" ]; then
    by_cmake mercury 2.0 mercury na
    if [ "$kind" = shared ]; then by_cmake mercury 2.4 'mercury::mercury mercury_util mercury::mercury_util' mercury::na; fi
fi
# Any older version of Mercury's interface will do, as with Mercury's package.
if [ -n "$mercury_compat" ]; then
    mkdir "$work/older"
    printf '%s\n' 'cmake_minimum_required(VERSION 3.13)' 'project(older C)' 'find_package(mercury 1.0 REQUIRED)' \
        'find_package(cinnabar REQUIRED)' 'add_executable(hello hello.c)' 'target_link_libraries(hello cinnabar::cinnabar)' \
        >"$work/older/CMakeLists.txt"
    cp "$source/docs/examples/hello_c/hello.c" "$work/older"
    run_quietly "CMake finds an older version, in a project without C++" cmake -G Ninja -S "$work/older" \
        -B "$work/older/build" "-DCMAKE_PREFIX_PATH=$root" "-DCMAKE_LIBRARY_PATH=$libs"
    echo "ok: an older version, a project without C++"
fi
# The C++ headers end the compilation with one error where the standard is too old.
for header in hg/engine.hpp na/domain.hpp; do
    if echo "#include <$header>" | $CXX -std=c++17 "-I$root/include" -fsyntax-only -x c++ - 2>"$work/log"; then
        fail "$header in C++17"
    fi
    grep -q 'error: .*need C++20: compile with -std=c++20' "$work/log" || fail "$header does not name the standard"
    [ "$(grep -c 'error: ' "$work/log")" -le 2 ] || fail "$header in C++17: more errors than one"
done
echo "ok: an older standard of C++ is refused"
# Transports that were written to Mercury's plugin interface end when they are configured or compiled.
[ ! -e "$root/include/na_plugin.h" ] || fail "na_plugin.h is installed"
for word in NA_PLUGIN NA_PLUGIN_VISIBILITY; do
    if printf '#include <na.h>\n%s extern int ops;\n' "$word" | $CC "-I$root/include" -fsyntax-only -x c - 2>"$work/log"; then
        fail "a plugin of Mercury compiles ($word)"
    fi
    grep -q 'another plugin interface' "$work/log" || { cat "$work/log"; fail "the compiler does not say why ($word)"; }
done
echo "ok: plugins of Mercury are refused"
# --- as a part of another build
if [ "$kind" = shared ]; then
    # Fetched sources: Meson itself is replaced by a script that "installs" the tree that is here.
    mkdir -p "$work/fetch/bin"
    cat >"$work/fetch/bin/meson" <<TEXT
#!/bin/sh
echo "\$@" >>"$work/fetch/calls"
case "\$1" in
setup) for word in "\$@"; do case "\$word" in --prefix=*) echo "\${word#--prefix=}" >"$work/fetch/prefix" ;; esac; done ;;
install) cp -a "$root" "\$(cat "$work/fetch/prefix")" ;;
esac
TEXT
    chmod +x "$work/fetch/bin/meson"
    cat >"$work/fetch/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.14)
project(fetch C CXX)
include(FetchContent)
FetchContent_Declare(cinnabar_source URL nowhere)
FetchContent_MakeAvailable(cinnabar_source)
include(${cinnabar_source_SOURCE_DIR}/tools/packaging/from_source.cmake)
cinnabar_from_source(-Ducx=disabled)
find_package(cinnabar REQUIRED)
add_executable(hello hello.c)
target_link_libraries(hello cinnabar::cinnabar)
TEXT
    cp "$source/docs/examples/hello_c/hello.c" "$work/fetch"
    run_quietly "FetchContent" env PATH="$work/fetch/bin:$PATH" cmake -G Ninja -S "$work/fetch" -B "$work/fetch/build" \
        "-DFETCHCONTENT_SOURCE_DIR_CINNABAR_SOURCE=$source" "-DCMAKE_LIBRARY_PATH=$libs"
    run_quietly "building with FetchContent" cmake --build "$work/fetch/build"
    grep -q -- '-Ducx=disabled' "$work/fetch/calls" || fail "FetchContent: options"
    echo "ok: FetchContent"
    # A subproject of Meson: configured only.
    mkdir -p "$work/parent/subprojects"
    ln -s "$source" "$work/parent/subprojects/cinnabar"
    cat >"$work/parent/meson.build" <<'TEXT'
project('parent', 'c', 'cpp')
foreach name : ['cinnabar', 'cinnabar-na', 'cinnabar-util']
  executable('hello-' + name, 'hello.c', dependencies: dependency(name, version: '>= 0.1', fallback: 'cinnabar'))
endforeach
TEXT
    cp "$source/docs/examples/hello_c/hello.c" "$work/parent"
    run_quietly "Meson subproject" env -u PKG_CONFIG_PATH meson setup "$work/parent/build" "$work/parent" --wrap-mode=forcefallback
    grep -q 'subprojects/cinnabar/hg/libcinnabar.so' "$work/parent/build/build.ninja" || fail "Meson subproject: its library"
    if grep -q 'subprojects/cinnabar/test/' "$work/parent/build/build.ninja"; then fail "Meson subproject: its tests"; fi
    echo "ok: Meson subproject"
fi
if (by_cmake cinnabar 9 cinnabar::cinnabar cinnabar::na) >"$work/nine" 2>&1; then fail "version 9 was found"; fi
grep -q 'requested version "9"' "$work/nine" || { cat "$work/nine" >&2; fail "version 9 was not looked for"; }
echo "ok: a later version is not found"
echo "all well"
