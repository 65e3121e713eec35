// SPDX-License-Identifier: BSD-3-Clause
// One store or fetch at the server: a file moves in chunks, several of them in flight, each
// checksummed and written (or read) in order.
//
// Everything runs on the server's one thread, inside callbacks. A Transfer owns its RPC handle, its
// file, its staging memory and itself: it answers the client exactly once and is gone after that.
#pragma once

#include <mercury.h>
#include <mercury_bulk.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace demo {

struct PipelineShape {
    std::size_t chunk = std::size_t{1} << 20;  // bytes
    std::size_t depth = 4;                     // chunks in flight
};

class Transfer {
 public:
    // Told when the transfer has ended, right before it is deleted.
    using OnEnd = void (*)(void* owner, Transfer* transfer);

    // What is to be moved. Takes over one reference to `handle`, and one to `remote` (the client's
    // memory; may be null when there is nothing to move).
    struct Request {
        hg_handle_t handle = HG_HANDLE_NULL;
        hg_bulk_op_t op = HG_BULK_PULL;  // pull: store; push: fetch
        std::string name;
        std::string path;
        hg_bulk_t remote = HG_BULK_NULL;
        std::uint64_t size = 0;  // store: bytes to pull; fetch: set by start()
    };

    // Starts; whatever goes wrong, also here, is answered to the client.
    static void start(Request request, const PipelineShape& shape, OnEnd on_end, void* owner,
                      std::vector<Transfer*>& active);

    const std::string& name() const noexcept { return request_.name; }
    std::uint64_t moved() const noexcept { return moved_; }
    // Starts no further chunk and answers `why` when those in flight have ended. May delete the
    // transfer.
    void abandon(const std::string& why);

 private:
    struct Slot {
        Transfer* transfer = nullptr;
        char* memory = nullptr;
        hg_size_t staging_offset = 0;
        hg_size_t length = 0;
        bool landed = false;
    };

    Transfer(Request request, const PipelineShape& shape, OnEnd on_end, void* owner);
    ~Transfer();

    std::string open_file();
    std::string make_staging();
    void advance();
    bool post(Slot& slot);
    void land(Slot& slot);
    void fail(std::string why);
    void answer();
    static hg_return_t on_chunk(const struct hg_cb_info* info);

    Request request_;
    const PipelineShape shape_;
    const OnEnd on_end_;
    void* const owner_;
    int file_ = -1;
    hg_bulk_t staging_ = HG_BULK_NULL;
    std::vector<Slot> slots_;
    std::size_t head_ = 0;       // the slot of the oldest chunk in flight
    std::size_t in_flight_ = 0;  // posted, callback not run yet
    std::size_t used_ = 0;       // slots from head_ on that hold a chunk, landed or in flight
    std::uint64_t next_ = 0;     // offset of the next chunk to post
    std::uint64_t moved_ = 0;
    std::uint32_t chunks_ = 0;
    std::uint32_t crc_ = 0;
    std::string error_;
};

}  // namespace demo
