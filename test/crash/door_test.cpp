// SPDX-License-Identifier: BSD-3-Clause
// Garbage at the door: processes that find the socket of a server, an abstract one or a port, and
// do not speak its language. The server loses them, and nothing else.
#include <catch2/catch.hpp>

#include <cstring>
#include <ctime>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "crash/few_files.hpp"
#include "crash/na_scene.hpp"
#include "crash/nursery.hpp"
#include "na/util/ip.hpp"
#include "support/payload.hpp"

namespace {

using namespace crash;
using support::Link;

struct Door {
    sockaddr_storage address{};
    socklen_t length = 0;
    bool local() const noexcept { return address.ss_family == AF_UNIX; }
};

// What stands in a URI after "na+sm://" is in the names of its sockets. Accepted ones have the name
// of the listener.
std::vector<Door> local_doors(const std::string& uri) {
    std::vector<Door> doors;
    const std::vector<std::string> all = abstract_sockets(uri.substr(uri.rfind('/') + 1));
    for (const std::string& name : std::set<std::string>(all.begin(), all.end())) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        // The first byte, shown as '@', is null.
        PARTY_REQUIRE(name.size() <= sizeof address.sun_path);
        std::memcpy(address.sun_path + 1, name.data() + 1, name.size() - 1);
        Door& door = doors.emplace_back();
        std::memcpy(&door.address, &address, sizeof address);
        door.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    }
    return doors;
}

std::vector<Door> doors_of(const std::string& uri) {
    const auto endpoint = na::util::parse_endpoint(support::ip_endpoint(uri));
    if (!endpoint) {
        return local_doors(uri);
    }
    Door door;
    door.length = endpoint->address.fill(door.address, endpoint->port);
    return {door};
}

// -1: not this door.
int knock(const Door& door, int type) {
    const int fd = socket(door.address.ss_family, type | SOCK_CLOEXEC, 0);
    PARTY_REQUIRE(fd >= 0);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&door.address), door.length) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

void say(int fd, const void* data, std::size_t size, const std::vector<int>& fds = {}) {
    iovec bytes{const_cast<void*>(data), size};
    std::vector<std::byte> control(CMSG_SPACE(sizeof(int) * std::max<std::size_t>(fds.size(), 1)));
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        cmsghdr* head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
        std::memcpy(CMSG_DATA(head), fds.data(), sizeof(int) * fds.size());
    }
    // The server may have hung up.
    [[maybe_unused]] const ssize_t n = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

class Intruder {
 public:
    Intruder(const std::string& uri, std::uint64_t seed)
        : doors_(doors_of(uri)), random_(seed), noise_(support::payload(200'000, seed)) {
        PARTY_REQUIRE(!doors_.empty());
    }
    ~Intruder() { leave(); }
    Intruder(const Intruder&) = delete;
    Intruder& operator=(const Intruder&) = delete;

    static constexpr unsigned kTricks = 11;
    void play(unsigned trick) {
        int entered = 0;
        for (const Door& door : doors_) {
            switch (trick) {
                case 0:
                    for (unsigned i = 0; i < 200 / slow(door); ++i) {
                        enter(door, entered);
                        leave();
                    }
                    break;
                case 1:
                    for (const std::size_t size :
                         {1, 2, 3, 4, 7, 8, 16, 63, 64, 100, 128, 200, 256, 1000, 4096, 65536}) {
                        enter(door, entered);
                        speak(noise_.data() + random_.below(1000), size);
                    }
                    break;
                case 2: {
                    static constexpr char kHttp[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
                    enter(door, entered);
                    speak(kHttp, sizeof kHttp - 1);
                    break;
                }
                case 3:
                    enter(door, entered);
                    speak(noise_.data(), noise_.size());
                    break;
                case 4:
                    enter(door, entered);
                    speak(noise_.data(), 0);
                    break;
                case 5:
                    if (door.local()) {
                        descriptors(door, entered);
                    } else {
                        reset(door, entered);
                    }
                    break;
                case 6:
                    enter(door, entered);
                    for (int i = 0; i < 2000; ++i) {
                        speak(noise_.data() + random_.below(1000), 1 + random_.below(300));
                    }
                    break;
                case 7:
                case 8:
                    enter(door, entered);
                    for (const int fd : inside_) {
                        shutdown(fd, trick == 7 ? SHUT_WR : SHUT_RD);
                    }
                    break;
                case 9:
                    if (door.local()) {
                        for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
                            PARTY_REQUIRE(knock(door, type) == -1);
                        }
                    }
                    ++entered;
                    break;
                case 10:
                    for (unsigned i = 0; i < 300 / slow(door); ++i) {
                        enter(door, entered);
                    }
                    break;
                default:
                    break;
            }
        }
        PARTY_REQUIRE(entered != 0);
    }
    void leave() {
        for (const int fd : std::exchange(inside_, {})) {
            close(fd);
        }
    }
    void crowd(unsigned count) {
        int entered = 0;
        for (unsigned i = 0; i < count; ++i) {
            for (const Door& door : doors_) {
                enter(door, entered);
            }
        }
        PARTY_REQUIRE(entered == static_cast<int>(count));
    }

 private:
    // libfabric lets visitors of a port in one by one, a hundred per second.
    static unsigned slow(const Door& door) { return door.local() ? 1 : 5; }
    void enter(const Door& door, int& entered) {
        if (const int fd = knock(door, door.local() ? SOCK_SEQPACKET : SOCK_STREAM); fd >= 0) {
            inside_.push_back(fd);
            ++entered;
        }
    }
    void speak(const void* data, std::size_t size, const std::vector<int>& fds = {}) {
        if (!inside_.empty()) {
            say(inside_.back(), data, size, fds);
        }
    }
    // Noise that comes with one or many descriptors, of files that are good for nothing.
    void descriptors(const Door& door, int& entered) {
        int ends[2];
        PARTY_REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
        const int files[] = {ends[0], ends[1], open("/", O_RDONLY | O_CLOEXEC),
                             open("/dev/zero", O_RDWR | O_CLOEXEC), memfd_create("x", MFD_CLOEXEC)};
        for (const std::size_t count : {1, 2, 3, 4, 16, 250}) {
            for (std::size_t i = 0; i < std::size(files); ++i) {
                enter(door, entered);
                std::vector<int> fds(count, files[i]);
                speak(noise_.data() + random_.below(1000), 1 + random_.below(600), fds);
            }
        }
        for (const int fd : files) {
            close(fd);
        }
    }

    // Connections that end with a reset, before a word and after some.
    void reset(const Door& door, int& entered) {
        for (std::size_t i = 0; i < 40; ++i) {
            enter(door, entered);
            if (i % 2 == 1) {
                speak(noise_.data(), i);
            }
            const linger now{.l_onoff = 1, .l_linger = 0};
            if (!inside_.empty()) {
                setsockopt(inside_.back(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
                close(inside_.back());
                inside_.pop_back();
            }
        }
    }

    const std::vector<Door> doors_;
    support::Random random_;
    const std::vector<std::byte> noise_;
    std::vector<int> inside_;
};

// `speaks`: visitors say something.
bool has_door(bool speaks) {
    const std::string& example = support::options().example;
    if (speaks && example.find("+sockets") != std::string::npos) {
        support::skip(
            "libfabric's sockets waits for the rest of what a stranger has begun, and serves "
            "nobody "
            "meanwhile; who said something costs it a descriptor for good");
        return false;
    }
    if (support::ip_endpoint(example).empty() && !example.starts_with("na+sm")) {
        support::skip("no socket of this transport can be found by its address");
        return false;
    }
    return true;
}

// All tricks so often: the first time shows what they cost once, the others what they cost for
// ever.
constexpr unsigned kPasses = 3;

std::clock_t cpu_ms() {
    return std::clock() / (CLOCKS_PER_SEC / 1000);
}

// A process that comes, is served, and goes.
Nursery newcomers() {
    return Nursery([](std::uint64_t n, const std::string& uri, const std::function<void()>& ready) {
        NaSide side({});
        ping(side, side.peer(uri), n);
        side.close();
        ready();
    });
}

}  // namespace

TEST_CASE("strangers say all kinds of things", "[na][door]") {
    if (!has_door(true)) {
        return;
    }
    for (unsigned round = 0; round < support::options().rounds; ++round) {
        for (const Waiting waiting : {Waiting::blocking, Waiting::busy}) {
            const std::uint64_t seed = support::options().seed + round;
            // The intruder is the one that is killed in the end, with all its feet in the door.
            NaScene scene({waiting, true, true}, {.waiting = waiting},
                          [=](NaSide& side, Link& link, na_addr_t*) {
                              // It has no business with the survivor by NA.
                              (void)side;
                              Intruder intruder(link.take_text(), seed);
                              for (unsigned n = 0; n < kPasses * Intruder::kTricks; ++n) {
                                  intruder.play(n % Intruder::kTricks);
                                  link.put("played");
                                  link.take_text();
                                  intruder.leave();
                              }
                              for (unsigned trick = 1; trick < Intruder::kTricks; ++trick) {
                                  intruder.play(trick);
                              }
                              link.put("all");
                              const support::Resting resting;
                              for (;;) {
                                  pause();
                              }
                          });
            scene.go_on(20);
            const std::size_t open = count_descriptors();
            scene.link().put(scene.side().uri());
            Memory first{};
            for (unsigned pass = 0; pass < kPasses; ++pass) {
                for (unsigned trick = 0; trick < Intruder::kTricks; ++trick) {
                    PARTY_REQUIRE(scene.hear() == "played");
                    scene.go_on(20);
                    scene.link().put("next");
                }
                const Memory now = memory_used();
                first = pass == 0 ? now : first;
                // What one visit costs is freed or used again for the next.
                CHECK(now.heap <= first.heap + 256 * 1024);
                CHECK(now.mappings <= first.mappings + 16);
            }
            PARTY_REQUIRE(scene.hear() == "all");
            scene.go_on(20);
            scene.kill();
            // libfabric's tcp forgets those who stand in the door when it is closed.
            scene.until([&] { return count_descriptors() <= open; });
            scene.finish();
        }
    }
}

TEST_CASE("a crowd stands in the door", "[na][door]") {
    if (!has_door(false)) {
        return;
    }
    for (const bool few_files : {false, true}) {
        for (const Waiting waiting : {Waiting::blocking, Waiting::busy}) {
            INFO((waiting == Waiting::busy ? "busy" : "blocking")
                 << (few_files ? ", few files" : ""));
            Nursery visitors = newcomers();
            Nursery crowds(
                [](std::uint64_t size, const std::string& uri, const std::function<void()>& ready) {
                    Intruder intruder(uri, 1);
                    intruder.crowd(static_cast<unsigned>(size));
                    const support::Resting resting;
                    ready();
                    for (;;) {
                        pause();
                    }
                });
            const std::size_t before = count_descriptors();
            NaSide side({.waiting = waiting});
            {
                Inbox inbox(side);
                const auto pump = [&] { side.turn(1); };
                const std::string uri = side.uri();
                const auto visit = [&] {
                    visitors.start(1, uri, pump);
                    visitors.reap(pump);
                };
                visit();
                const std::size_t open = count_descriptors();
                const std::string at_first = list_descriptors();
                std::unique_ptr<FewFiles> limit;
                if (few_files) {
                    NA_Set_log_level("none");  // it says what it lacks, which is right
                    limit = std::make_unique<FewFiles>(16);
                }
                const bool local = doors_of(uri).front().local();
                const unsigned crowd_size =
                    local ? 500 : 100;  // libfabric lets a hundred per second in
                const pid_t crowd = crowds.start(crowd_size, uri, pump);
                for (int i = 0; i < 1000; ++i) {
                    side.turn();
                }
                if (!few_files) {
                    // Those who say nothing do not keep others out.
                    visit();
                    CHECK(inbox.pings() == 2);
                }
                // Nor do they keep the server from sleeping, unless the kernel goes on announcing a
                // visitor whom the provider of a port has no descriptor for.
                if (waiting != Waiting::busy && !(few_files && !local)) {
                    const std::clock_t used = cpu_ms();
                    for (int i = 0; i < 3; ++i) {
                        unsigned ready = 0;
                        CHECK(NA_Poll_wait(side.cls(), side.context(), 100, &ready) == NA_TIMEOUT);
                    }
                    CHECK(cpu_ms() - used < 100 * static_cast<int>(support::kSlow));
                }
                Nursery::kill(crowd);
                crowds.reap(pump);
                const auto gone = [&] { return count_descriptors() <= open; };
                const bool closed = local ? until_noticed(gone, pump) : support::until(gone, pump);
                limit.reset();
                if (!closed) {
                    UNSCOPED_INFO("open at first:\n"
                                  << at_first << "open now:\n"
                                  << list_descriptors());
                }
                CHECK(closed);
                NA_Set_log_level("error");
                const std::uint64_t pings = inbox.pings();
                visit();
                CHECK(inbox.pings() == pings + 1);
                inbox.close();
            }
            side.close();
            CHECK(descriptors_are_back(before));
        }
    }
}
