#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks our headers against the list of the C API (api.txt says how a line of it reads).

  api_check.py generate API MISSING SUFFIX FOLDER PREFIX
                                                    writes FOLDER/PREFIX_api_<header>SUFFIX for every header, and api_main
                                                    likewise: a program that compiles, links and answers 0 where all is as
                                                    listed
  api_check.py missing API MISSING NAMES COMPILER...  every name of NAMES is listed; what is in MISSING is listed, and
                                                    does not exist: who adds it takes it off that list
"""

import os
import re
import subprocess
import sys
import tempfile

IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def fail(text):
    sys.exit(f"api_check: {text}")


def words(path):
    """Lines of a list without comments."""
    with open(path, encoding="utf-8") as lines:
        return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def declared(declaration):
    """The name that a C declaration declares: in (*name), in front of the parameters, or at the end."""
    head, _, rest = declaration.partition("(")
    pointer = re.match(r"\*\s*(\w+)\)", rest)
    return pointer.group(1) if pointer else IDENTIFIER.findall(head)[-1]


def as_pointer(declaration, name, volatile=""):
    """The declaration of `check`, a pointer to what was declared."""
    if f"(*{name})" in declaration:
        return declaration.replace(f"(*{name})", f"(**{volatile}check)", 1)
    pointer = f"(*{volatile}check)" if "(" in declaration else f"*{volatile}check"
    return re.sub(rf"\b{name}\b", pointer, declaration, count=1)


def fields(body, prefix=""):
    """(path, declaration with the plain name, plain name) of every member, those of unions with their path."""
    for union, inner, name in re.findall(r"(union)\s*\{([^}]*)\}\s*(\w+)\s*;", body):
        yield from fields(inner, prefix + name + ".")
    for text in re.sub(r"union\s*\{[^}]*\}\s*\w+\s*;", "", body).split(";"):
        text = text.strip()
        if text:
            name = declared(text)
            yield prefix + name, text, name


class Entry:
    """One line: its kind, the name that it is about, and the rest."""

    def __init__(self, header, line):
        self.header, self.line = header, line
        self.kind, _, rest = line.partition(" ")
        rest, _, condition = rest.partition(" : ")
        self.rest, self.condition = rest.strip(), condition.strip()
        self.names = []
        if self.kind in ("function", "type"):
            self.name = declared(self.rest)
        elif self.kind in ("struct", "members"):
            self.name, _, body = self.rest.removeprefix("struct ").partition(" ")
            self.body = body.strip().removeprefix("{").removesuffix("}")
        elif self.kind == "opaque":
            self.name = self.rest.removeprefix("struct ")
        elif self.kind == "enum":
            self.name, *self.names = self.rest.split()
        elif self.kind in ("pointer", "macro", "expression"):
            self.name = self.rest
        elif self.kind == "sized":
            self.name, self.value = self.rest.split()
        elif self.kind == "constant":
            self.name, self.value = self.rest.split(maxsplit=1)
        elif self.kind in ("null", "initialiser"):
            self.type, self.name = self.rest.rsplit(" ", 1)
        else:
            fail(f"{line}: no such kind")


def read(path):
    entries, header = [], None
    for line in words(path):
        if line.startswith("header "):
            header = line.split()[1]
        else:
            entries.append(Entry(header, line))
    return entries


class Unit:
    """What is generated for one header: file scope and the body of its function."""

    def __init__(self):
        self.scope, self.body, self.count = [], [], 0

    def always(self, condition):
        self.count += 1
        self.scope.append(f"typedef char check_{self.count}[({condition}) ? 1 : -1];")

    def expect(self, condition, text):
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        self.body.append(f'    expect({condition}, "{quoted}");')

    def same_type(self, declaration, name, value):
        self.body.append(f"    {{ {as_pointer(declaration, name)} = {value}; (void)check; }}")

    def add(self, entry, missing):
        kind, name = entry.kind, entry.name
        if kind == "function":
            self.body.append(f"    {{ static {as_pointer(entry.rest, name, 'volatile ')} = {name};")
            self.body.append(f'      expect(check != 0, "{name}"); }}')
        elif kind == "type":
            self.same_type(entry.rest, name, f"({name}*)0")
        elif kind == "pointer":
            self.always(f"sizeof({name}) == sizeof(void*)")
            self.body.append(f"    {{ {name} check = 0; const void* p = (const void*)check; (void)p; }}")
        elif kind == "sized":
            self.always(f"sizeof({name}) == {entry.value}")
        elif kind == "enum":
            for value, constant in enumerate(entry.names):
                if constant not in missing:
                    self.always(f"(int)({constant}) == {value}")
            if not name.endswith("_t"):
                self.always(f"sizeof(enum {name}) == sizeof(int)")
        elif kind == "constant":
            self.always(f"(long long)({name}) == {entry.value}LL")
        elif kind == "macro":
            self.scope.append(f"#ifndef {name}\n#error {name} is not defined\n#endif")
            if entry.condition:
                self.expect(entry.condition, entry.condition)
        elif kind == "expression":
            self.expect(entry.condition, entry.condition)
        elif kind == "null":
            self.body.append(f'    {{ {entry.type} check = {name}; expect(check == 0, "{name}"); }}')
        elif kind == "initialiser":
            self.body.append(f'    {{ {entry.type} info = {name}; expect(info.{entry.condition}, "{name}"); }}')
        elif kind == "opaque":
            self.body.append(f"    {{ struct {name}* check = 0; (void)check; }}")
        elif kind in ("struct", "members"):
            self.scope.append(f"static struct {name} value_{name};")
            for path, text, plain in fields(entry.body):
                self.same_type(text, plain, f"&value_{name}.{path}")
                if kind == "struct":
                    self.always(f"offsetof(struct {name}, {path}) == offsetof(struct list_{name}, {path})")
            if kind == "struct":
                # After the field checks were written: it has to be declared before them.
                self.scope.insert(0, f"struct list_{name} {{{entry.body}}};")
                self.always(f"sizeof(struct {name}) == sizeof(struct list_{name})")


MAIN = """\
#include <stdio.h>

%(declarations)s
void expect(int condition, const char* what);

static int failures;

void expect(int condition, const char* what) {
    if (!condition) {
        printf("not so: %%s\\n", what);
        failures++;
    }
}

int main(void) {
%(calls)s
    return failures == 0 ? 0 : 1;
}
"""


def function_of(header):
    return "check_" + header.replace(".", "_")


def write(path, text):
    """Leaves a file that is right alone, so that it is not compiled again."""
    if os.path.isfile(path):
        with open(path, encoding="utf-8") as there_already:
            if there_already.read() == text:
                return
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)


def generate(api, missing, suffix, folder, prefix):
    entries, gone = read(api), set(words(missing))
    headers = list(dict.fromkeys(e.header for e in entries))
    called = []
    for header in headers:
        unit = Unit()
        for entry in entries:
            if entry.header == header and entry.name not in gone:
                unit.add(entry, gone)
        text = ""
        if any(e.header == header and e.kind != "opaque" and e.name not in gone for e in entries):
            called.append(header)
            text = f'#include "{header}"\n#include <stddef.h>\n'
            text += "\n".join(unit.scope) + "\n"
            text += f"void expect(int condition, const char* what);\nvoid {function_of(header)}(void);\n"
            text += f"void {function_of(header)}(void) {{\n" + "\n".join(unit.body) + "\n}\n"
        else:
            text = f"extern int {function_of(header)}_nothing;\n"
        write(os.path.join(folder, f"{prefix}_api_" + header.replace(".", "_") + suffix), text)
    write(os.path.join(folder, f"{prefix}_api_main" + suffix), MAIN % {
        "declarations": "\n".join(f"void {function_of(h)}(void);" for h in called),
        "calls": "\n".join(f"    {function_of(h)}();" for h in called),
    })


def probe(entry, name):
    """A line of C that is an error where the name does not exist; None: there is no such line."""
    if entry.kind == "macro":
        return f"\n#ifndef {name}\n#error {name} does not exist\n#endif"
    if entry.kind in ("type", "pointer", "sized"):
        return f"static {name}* probe;"
    if entry.kind in ("struct", "members"):
        return f"static struct {name} probe;"
    if entry.kind == "opaque":
        return None
    return f"static void probe(void) {{ (void)({name}); }}"


def there(compiler, header, probes):
    """Those of the (name, line) that compile after including the header."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "probe.c")
        with open(path, "w", encoding="utf-8") as out:
            out.write(f'#include "{header}"\n')
            for number, (_, line) in enumerate(probes, 1):
                # Ten lines each, in a block of its own.
                out.write(f'#line {number * 10} "probe"\n' + line.replace("probe", f"probe_{number}", 1) + "\n")
        done = subprocess.run(compiler + ["-std=c99", "-fsyntax-only", path], capture_output=True, text=True, check=False)
        wrong = {int(n) // 10 for n in re.findall(r"^probe:(\d+):\d+: (?:fatal )?error", done.stderr, re.MULTILINE)}
        if done.returncode != 0 and not wrong:
            fail(f"{header} does not compile:\n{done.stderr}")
    return [name for number, (name, _) in enumerate(probes, 1) if number not in wrong]


def check_missing(api, missing, names, compiler):
    entries, gone = read(api), words(missing)
    listed = {}
    for entry in entries:
        for name in [entry.name] + entry.names:
            listed.setdefault(name, entry)
    wrong = [f"{line}: not in the list of the API" for line in words(names) if line.split()[1] not in listed]
    wrong += [f"{name}: missing, but not in the list of the API" for name in gone if name not in listed]
    by_header = {}
    for name in gone:
        if name in listed:
            line = probe(listed[name], name)
            if line is None:
                wrong.append(f"{name}: opaque structs cannot be missing")
            else:
                by_header.setdefault(listed[name].header, []).append((name, line))
    include = [c.removeprefix("-I") for c in compiler if c.startswith("-I")]
    for header, probes in by_header.items():
        if any(os.path.isfile(os.path.join(folder, header)) for folder in include):
            wrong += [f"{name}: exists; take it off {os.path.basename(missing)}" for name in there(compiler, header, probes)]
    for line in wrong:
        print(line)
    print(f"{len(listed)} names listed, {len(gone)} of them missing")
    sys.exit(1 if wrong else 0)


def main(arguments):
    if len(arguments) == 6 and arguments[0] == "generate":
        generate(*arguments[1:])
    elif len(arguments) >= 5 and arguments[0] == "missing":
        check_missing(*arguments[1:4], arguments[4:])
    else:
        fail("see the top of the file")


if __name__ == "__main__":
    main(sys.argv[1:])
