#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows a header to Doxygen as it wants it: on standard output, line by line, the comments of this tree as its own.

A comment that stands above a declaration, or behind one, describes it; the first of a file describes the file; one that is
followed by a blank line, or is a headline (---), describes nothing. Argument: the header.
"""

import re
import sys

HEADLINE = re.compile(r"-{3,}")
# Doxygen knows no namespaces of the form a::inline b, and users need not see the inline ones.
NAMESPACE = re.compile(r"^namespace na::inline v1(::detail)? \{|^namespace na::inline v1;")
CODE = re.compile(r"^ {4,}")
LIST = re.compile(r"^ *- ")


def words(text):
    """The text of a comment without what would be a command or a tag."""
    if CODE.match(text):
        return text
    spans = text.split("`")
    for i in range(0, len(spans), 2):  # what is between is code
        spans[i] = re.sub(r"([\\@<>#%$|])", r"\\\1", spans[i])
    return "`".join(spans)


def is_blank(line):
    return line.strip() == ""


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read().split("\n")


class Header:
    def __init__(self, lines):
        self.lines = lines
        self.out = []
        self.at = 0
        self.described = False  # the file

    def describes(self, end, text):
        """Whether the comment that ends before line `end` is about what follows."""
        if any(HEADLINE.search(t) for t in text):
            return False
        if end >= len(self.lines) or is_blank(self.lines[end]):
            return False
        following = self.lines[end].strip()
        return not following.startswith(("}", "#if", "#else", "#endif", "#include", "#undef", "return", "public:", "private:"))

    def emit_block(self, indent, texts, end):
        if not self.described and any(not is_blank(t) for t in texts):
            self.described = True
            kind = "file"
        else:
            kind = "declaration" if self.describes(end, texts) else "none"
        if kind == "none":
            self.out += ["" for _ in texts]
        elif kind == "file":
            self.out[-1:] = [f"{indent}/// @file"]  # instead of the line about the licence
            self.out += [f"{indent}/// {words(t)}".rstrip() for t in texts]
        else:
            self.out += [f"{indent}/// {words(t)}".rstrip() for t in texts]

    def cxx_block(self):
        indent = re.match(r" *", self.lines[self.at]).group()
        texts = []
        while self.at < len(self.lines) and self.lines[self.at].strip().startswith("//"):
            text = self.lines[self.at].strip()[2:]
            texts.append(text[1:] if text.startswith(" ") else text)
            self.at += 1
        self.emit_block(indent, texts, self.at)

    def c_block(self):
        indent = re.match(r" *", self.lines[self.at]).group()
        texts = []
        while True:
            text = self.lines[self.at].strip()
            self.at += 1
            last = text.endswith("*/")
            text = re.sub(r"^/?\*+(?!/)", "", text)
            text = re.sub(r"\*+/$", "", text)
            texts.append(text[1:] if text.startswith(" ") else text)
            if last or self.at == len(self.lines):
                break
        self.emit_block(indent, texts, self.at)

    def code(self):
        line = NAMESPACE.sub(lambda m: "namespace na" + (m.group(1) or "") + " {", self.lines[self.at])
        self.at += 1
        is_directive = line.lstrip().startswith("#") and not line.lstrip().startswith("#define")
        behind = None if is_directive else re.match(r"^(.*\S)\s+(?://(?: (.*))?|/\* (.*) \*/)$", line)
        if behind is not None and behind.group(1).rstrip("\\").rstrip().endswith((",", ";", "{", "}")) is False:
            # Behind the last enumerator, or a value of a macro.
            if not re.match(r"^\s*(\w+( = [^,]*)?|#define \w+(\(.*?\))? .*)$", behind.group(1)):
                behind = None
        if behind is None or behind.group(1).strip().startswith(("}", "namespace")) or behind.group(1).endswith("{"):
            self.out.append(re.sub(r"\s+//.*$", "", line))
            return
        texts = [behind.group(2) or behind.group(3) or ""]
        indent = re.match(r" *", line).group()
        # Goes on in lines of its own, further to the right.
        more = []
        while (self.at < len(self.lines) and re.match(r" +//", self.lines[self.at])
               and len(re.match(r" *", self.lines[self.at]).group()) > len(indent) + 4):
            more.append(self.lines[self.at].strip()[2:].strip())
            self.at += 1
        self.out.append(f"{behind.group(1)} ///< {words(' '.join(texts + more))}")
        self.out += ["" for _ in more]

    def run(self):
        while self.at < len(self.lines):
            text = self.lines[self.at].strip()
            if "SPDX-License-Identifier" in text:
                self.out.append("")
                self.at += 1
                # (A C header goes on with its description in the next comment.)
            elif text.startswith("//"):
                self.cxx_block()
            elif text.startswith("/*") and (text.endswith("*/") or "*/" not in text):
                self.c_block()
            else:
                self.code()
        return "\n".join(self.out)


if __name__ == "__main__":
    sys.stdout.write(Header(lines_of(sys.argv[1])).run())
