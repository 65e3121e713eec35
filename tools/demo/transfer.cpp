// SPDX-License-Identifier: BSD-3-Clause
#include "transfer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "crc32c.hpp"
#include "endpoint.hpp"
#include "rpc.hpp"

namespace demo {
namespace {

std::string file_error(const char* verb, const std::string& path) {
    return fmt::format("cannot {} {}: {}", verb, path, std::strerror(errno));
}

std::string partial(const std::string& path) {
    return path + ".part";
}

// The whole range, however many calls it takes.
bool write_all(int file, const char* data, std::size_t size) {
    while (size > 0) {
        const ssize_t n = ::write(file, data, size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return false;
        }
        data += n;
        size -= static_cast<std::size_t>(n);
    }
    return true;
}

bool read_all(int file, char* data, std::size_t size) {
    while (size > 0) {
        const ssize_t n = ::read(file, data, size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            errno = n == 0 ? ENODATA : errno;  // somebody made the file shorter
            return false;
        }
        data += n;
        size -= static_cast<std::size_t>(n);
    }
    return true;
}

}  // namespace

Transfer::Transfer(Request request, const PipelineShape& shape, OnEnd on_end, void* owner)
    : request_(std::move(request)), shape_(shape), on_end_(on_end), owner_(owner) {}

Transfer::~Transfer() {
    if (file_ >= 0) {
        ::close(file_);
        if (request_.op == HG_BULK_PULL) {
            ::unlink(partial(request_.path).c_str());  // it was not renamed: incomplete
        }
    }
    HG_Bulk_free(staging_);
    HG_Bulk_free(request_.remote);
    HG_Destroy(request_.handle);
}

void Transfer::start(Request request, const PipelineShape& shape, OnEnd on_end, void* owner,
                     std::vector<Transfer*>& active) {
    auto* transfer = new Transfer(std::move(request), shape, on_end, owner);
    active.push_back(transfer);
    transfer->error_ = transfer->open_file();
    if (transfer->error_.empty()) {
        transfer->error_ = transfer->make_staging();
    }
    transfer->advance();
}

// Opens the file and, for a fetch, learns the size. Returns what is wrong.
std::string Transfer::open_file() {
    if (request_.op == HG_BULK_PULL) {
        file_ =
            ::open(partial(request_.path).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (file_ < 0) {
            return file_error("create", partial(request_.path));
        }
    } else {
        file_ = ::open(request_.path.c_str(), O_RDONLY | O_CLOEXEC);
        struct stat status = {};
        if (file_ < 0 || ::fstat(file_, &status) != 0) {
            return file_error("open", request_.path);
        }
        request_.size = static_cast<std::uint64_t>(status.st_size);
    }
    const std::uint64_t room = HG_Bulk_get_size(request_.remote);  // 0 for none
    if (request_.size > room) {
        return fmt::format("{} bytes to move, but the client's memory has {}", request_.size, room);
    }
    return {};
}

std::string Transfer::make_staging() {
    const std::uint64_t chunks = (request_.size + shape_.chunk - 1) / shape_.chunk;
    const std::size_t depth =
        static_cast<std::size_t>(std::min<std::uint64_t>(chunks, shape_.depth));
    if (depth == 0) {
        return {};
    }
    // Memory from the library is the fastest that a transport can move.
    const hg_size_t size = depth * std::min<std::uint64_t>(shape_.chunk, request_.size);
    hg_return_t code = HG_Bulk_create(HG_Get_info(request_.handle)->hg_class, 1, nullptr, &size,
                                      HG_BULK_READWRITE, &staging_);
    void* memory = nullptr;
    if (code == HG_SUCCESS) {
        code = HG_Bulk_access(staging_, 0, size, HG_BULK_READWRITE, 1, &memory, nullptr, nullptr);
    }
    if (code != HG_SUCCESS) {
        return describe(fmt::format("cannot allocate {} bytes of staging memory", size), code);
    }
    slots_.resize(depth);
    for (std::size_t i = 0; i < depth; ++i) {
        slots_[i].transfer = this;
        slots_[i].staging_offset = i * std::min<std::uint64_t>(shape_.chunk, request_.size);
        slots_[i].memory = static_cast<char*>(memory) + slots_[i].staging_offset;
    }
    return {};
}

// Lands what has arrived, in order; fills the pipeline; ends the transfer when nothing is left to
// wait for.
void Transfer::advance() {
    while (used_ > 0 && slots_[head_].landed) {
        land(slots_[head_]);
        head_ = (head_ + 1) % slots_.size();
        --used_;
    }
    while (error_.empty() && used_ < slots_.size() && next_ < request_.size) {
        if (!post(slots_[(head_ + used_) % slots_.size()])) {
            break;
        }
    }
    if (in_flight_ == 0 && (!error_.empty() || moved_ == request_.size)) {
        answer();
    }
}

bool Transfer::post(Slot& slot) {
    slot.length = std::min<std::uint64_t>(shape_.chunk, request_.size - next_);
    slot.landed = false;
    if (request_.op == HG_BULK_PUSH) {
        if (!read_all(file_, slot.memory, slot.length)) {
            fail(file_error("read", request_.path));
            return false;
        }
        crc_ = crc32c(crc_, slot.memory, slot.length);
    }
    const struct hg_info* info = HG_Get_info(request_.handle);
    const hg_return_t code =
        HG_Bulk_transfer(info->context, on_chunk, &slot, request_.op, info->addr, request_.remote,
                         next_, staging_, slot.staging_offset, slot.length, HG_OP_ID_IGNORE);
    if (code != HG_SUCCESS) {
        fail(describe("cannot start a bulk transfer", code));
        return false;
    }
    next_ += slot.length;
    ++used_;
    ++in_flight_;
    ++chunks_;
    return true;
}

hg_return_t Transfer::on_chunk(const struct hg_cb_info* info) {
    auto& slot = *static_cast<Slot*>(info->arg);
    Transfer& transfer = *slot.transfer;
    slot.landed = true;
    --transfer.in_flight_;
    if (info->ret != HG_SUCCESS) {
        transfer.fail(describe("bulk transfer", info->ret));
    }
    transfer.advance();  // may delete the transfer
    return HG_SUCCESS;
}

void Transfer::land(Slot& slot) {
    if (!error_.empty()) {
        return;
    }
    if (request_.op == HG_BULK_PULL) {
        if (!write_all(file_, slot.memory, slot.length)) {
            fail(file_error("write", partial(request_.path)));
            return;
        }
        crc_ = crc32c(crc_, slot.memory, slot.length);
    }
    moved_ += slot.length;
}

void Transfer::fail(std::string why) {
    if (error_.empty()) {
        error_ = std::move(why);
    }
}

void Transfer::abandon(const std::string& why) {
    fail(why);
    advance();
}

void Transfer::answer() {
    if (error_.empty() && request_.op == HG_BULK_PULL) {
        const int file = std::exchange(file_, -1);
        if (::close(file) != 0 ||
            ::rename(partial(request_.path).c_str(), request_.path.c_str()) != 0) {
            fail(file_error("finish", request_.path));
            ::unlink(partial(request_.path).c_str());
        }
    }
    demo_moved_out_t out = {};
    out.size = moved_;
    out.crc = crc_;
    out.chunks = chunks_;
    out.where = request_.path.c_str();
    out.error = error_.c_str();
    // A client that has died cannot be told; there is nobody else to tell either.
    (void)HG_Respond(request_.handle, nullptr, nullptr, &out);
    on_end_(owner_, this);
    delete this;
}

}  // namespace demo
