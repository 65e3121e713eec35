// SPDX-License-Identifier: BSD-3-Clause
#include "na/plugin_loader.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include "na/util/config.hpp"

#ifndef CINNABAR_PLUGIN_DIR
#define CINNABAR_PLUGIN_DIR ""
#endif

namespace na {
namespace {

// What signals do is the program's choice. Libraries that come with a module (libpsm2 with
// libfabric) take SIGINT, SIGTERM and the signals of crashes for themselves as they are loaded: for
// the life of this object they may.
class KeptSignals {
 public:
    KeptSignals() noexcept {
        for (int i = 1; i < kCount; ++i) {
            known_[i] = sigaction(i, nullptr, &before_[i]) == 0;
        }
    }
    ~KeptSignals() {
        for (int i = 1; i < kCount; ++i) {
            struct sigaction now {};
            if (known_[i] && sigaction(i, nullptr, &now) == 0 &&
                now.sa_sigaction != before_[i].sa_sigaction) {
                sigaction(i, &before_[i], nullptr);
            }
        }
    }
    KeptSignals(const KeptSignals&) = delete;
    KeptSignals& operator=(const KeptSignals&) = delete;

 private:
    static constexpr int kCount = 32;  // those that have a meaning of their own
    struct sigaction before_[kCount] = {};
    bool known_[kCount] = {};
};

constexpr std::string_view kModulePrefix = "libna_plugin_";
constexpr std::string_view kModuleSuffix = ".so";

void add_folder(const std::string& folder, std::vector<std::string>& files) {
    std::error_code error;
    const std::size_t first = files.size();
    for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
         it.increment(error)) {
        const std::string name = it->path().filename().string();
        if (name.starts_with(kModulePrefix) && name.ends_with(kModuleSuffix)) {
            std::string file = it->path().string();
            if (std::find(files.begin(), files.end(), file) == files.end()) {
                files.push_back(std::move(file));
            }
        }
    }
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(first), files.end());
}

// Modules lie beside the library; where it was configured to be may be empty, or another one's,
// once the tree was moved. In a static library the file is the program, which says nothing.
std::string find_installed_folder() {
    Dl_info library{};
    if (dladdr(reinterpret_cast<const void*>(&find_installed_folder), &library) != 0 &&
        library.dli_fname != nullptr) {
        std::error_code error;
        const std::filesystem::path file = std::filesystem::canonical(library.dli_fname, error);
        if (!error && file.filename().string().starts_with("libcinnabar-na.so")) {
            std::filesystem::path folder = file.parent_path() / "cinnabar";
            if (std::filesystem::is_directory(folder, error) && !error) {
                return folder.string();
            }
        }
    }
    return CINNABAR_PLUGIN_DIR;
}

// Once: a program may go to another folder, and the name of its library may be relative to this
// one.
const std::string& installed_folder() {
    // Never destroyed: classes may be opened and used while the process ends.
    static const std::string& folder = *new std::string(find_installed_folder());
    return folder;
}

struct Loaded {
    void* module = nullptr;
    std::string why_not;
};

Loaded load(const std::string& file) {
    const KeptSignals signals;
    Loaded loaded;
    loaded.module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (loaded.module == nullptr) {
        const char* why = dlerror();
        loaded.why_not = why == nullptr ? "dlopen failed" : why;
    }
    return loaded;
}

// UCX reads `ucx.conf` in the working directory and in $HOME while it is loaded, and the file may
// name modules to load. In a privileged process both folders are the caller's choice: so a thread
// with a working directory of its own loads, and $HOME is not there meanwhile.
Loaded load_apart(const std::string& file) {
    const config::WithoutHome hidden;
    Loaded loaded;
    try {
        std::thread([&] {
            if ((unshare(CLONE_FS) != 0 || chdir("/") != 0) && named_for(file, "ucx")) {
                loaded.why_not =
                    "UCX would read ucx.conf in the working directory, which the caller of this "
                    "privileged process has chosen";
                return;
            }
            loaded = load(file);
        }).join();
    } catch (const std::system_error& e) {
        loaded.why_not = e.what();
    }
    return loaded;
}

}  // namespace

std::vector<std::string> plugin_modules() {
    config::forget_libraries_where_privileged();
    std::vector<std::string> files;
    std::string path = config::value(config::kPluginPath);
    for (std::size_t at = 0; at <= path.size();) {
        const std::size_t colon = std::min(path.find(':', at), path.size());
        if (colon > at) {
            add_folder(path.substr(at, colon - at), files);
        }
        at = colon + 1;
    }
    const std::string& installed = installed_folder();
    if (!installed.empty()) {
        add_folder(installed, files);
    }
    return files;
}

bool named_for(std::string_view file, std::string_view class_name) noexcept {
    std::string_view name = file.substr(file.rfind('/') + 1);  // npos + 1 is 0
    if (!name.starts_with(kModulePrefix) || !name.ends_with(kModuleSuffix)) {
        return false;
    }
    name.remove_prefix(kModulePrefix.size());
    name.remove_suffix(kModuleSuffix.size());
    return name == class_name;
}

Result<std::unique_ptr<plugin::Plugin>> load_plugin(const std::string& file) {
    Loaded loaded = config::privileged() ? load_apart(file) : load(file);
    void* const module = loaded.module;
    if (module == nullptr) {
        return Error{Status::nodev, std::move(loaded.why_not)};
    }
    const auto* entry = static_cast<const plugin::Entry*>(dlsym(module, "na_plugin_entry"));
    const auto refuse = [module](std::string why) {
        dlclose(module);
        return Error{Status::protocol_error, std::move(why)};
    };
    if (entry == nullptr || entry->magic != plugin::kMagic || entry->create == nullptr) {
        return refuse("it exports no na_plugin_entry of this project");
    }
    if (entry->abi != plugin::kAbi) {
        return refuse(
            fmt::format("it was built for plugin interface {}, this library has {}: rebuild it",
                        entry->abi, plugin::kAbi));
    }
    try {
        return entry->create();
    } catch (const std::bad_alloc&) {
        return Error{Status::nomem, "out of memory"};
    }
}

}  // namespace na
