// SPDX-License-Identifier: BSD-3-Clause
// Which process something was made in.
//
// A child of fork() has copies of all objects, but connections, memory that is shared with peers
// and the threads that were at work are its parent's: it can use none of them, and who closes them
// there (a library that programs preload does, when a child exits) would end them for the parent.
#pragma once

namespace na::util {

// Since when, in forks of this process and of those that it is a copy of. Any thread; in children,
// too.
unsigned forks() noexcept;

class Lineage {
 public:
    Lineage() noexcept : born_(forks()) {}
    // This process is a child (or a child's child) of the one that made it.
    bool inherited() const noexcept { return forks() != born_; }

 private:
    unsigned born_;
};

}  // namespace na::util
