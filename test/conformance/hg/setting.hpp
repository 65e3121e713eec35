// SPDX-License-Identifier: BSD-3-Clause
// An environment variable for the life of the object; then it is what it was.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace hgtest {

class Setting {
 public:
    Setting(const char* name, const char* value) : name_(name) {
        if (const char* before = std::getenv(name); before != nullptr) {
            before_ = before;
        }
        setenv(name, value, 1);
    }
    ~Setting() {
        if (before_) {
            setenv(name_, before_->c_str(), 1);
        } else {
            unsetenv(name_);
        }
    }
    Setting(const Setting&) = delete;
    Setting& operator=(const Setting&) = delete;

 private:
    const char* name_;
    std::optional<std::string> before_;
};

}  // namespace hgtest
