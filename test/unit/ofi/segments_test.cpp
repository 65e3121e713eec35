// SPDX-License-Identifier: BSD-3-Clause
// Segments of shared memory: whose one is, and which may be removed. The files here are such as the
// provider leaves, without one.
//
// Others on this machine may be in the gate at any time, and then nothing is concluded: what should
// happen is waited for, what should not is looked at after something else has happened.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plugins/ofi/neighbours.hpp"
#include "plugins/ofi/segments.hpp"
#include "support/two_process.hpp"
#include "support/until.hpp"

using namespace na::ofi;
using namespace std::chrono_literals;
using support::until;
using State = SegmentOwner::State;

namespace {

std::string path_of(const std::string& name) {
    return "/dev/shm/" + name;
}

// A name of this run.
std::string fresh(const std::string& what) {
    return "unit-ofi-" + std::to_string(getpid()) + "-" + what;
}

bool exists(const std::string& name) {
    struct stat file {};
    return lstat(path_of(name).c_str(), &file) == 0;
}

ino_t number_of(const std::string& name) {
    struct stat file {};
    return stat(path_of(name).c_str(), &file) == 0 ? file.st_ino : 0;
}

bool make_file(const std::string& name) {
    const na::util::UniqueFd fd(
        open(path_of(name).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    return fd && ftruncate(fd.get(), 1 << 16) == 0 &&
           pwrite(fd.get(), name.data(), name.size(), 500) == std::ssize(name);
}

// Its process is no more.
void mourn_now(const std::string& name, std::chrono::milliseconds mourning) {
    mourn(name);
    remove_stale_segments(kMoment, mourning);
}

// Files that are gone after the test, however it ends.
class Files {
 public:
    ~Files() {
        for (const std::string& name : names_) {
            unlink(path_of(name).c_str());
        }
    }
    const std::string& expect(const std::string& name) {
        unlink(path_of(name).c_str());  // of a process of the same number, long ago
        return *names_.insert(names_.end(), name);
    }
    const std::string& make(const std::string& name) {
        expect(name);
        REQUIRE(make_file(name));
        return names_.back();
    }

 private:
    std::vector<std::string> names_;
};

// What is said when nobody else is in the gate.
SegmentOwner owner_of(const std::string& name) {
    SegmentOwner owner;
    (void)until([&] { return (owner = segment_owner(name)).state != State::unknown; });
    return owner;
}

// In the gate; not while a judge is inside.
std::unique_ptr<SegmentGate> enter_as_maker() {
    std::unique_ptr<SegmentGate> gate;
    REQUIRE(until([&] {
        gate = std::make_unique<SegmentGate>(SegmentGate::As::maker);
        return gate->entered();
    }));
    return gate;
}

// A process that makes segments as an endpoint does, and holds them until it is killed.
class Holder {
 public:
    explicit Holder(std::vector<std::string> names)
        : party_(support::Party::As::process, [names](support::Link& link) {
              std::vector<na::util::UniqueFd> held;
              for (const std::string& name : names) {
                  const SegmentGate gate(SegmentGate::As::maker);
                  PARTY_REQUIRE(make_file(name));
                  held.push_back(hold_segment(name));
                  PARTY_REQUIRE(held.back());
              }
              link.put("held");
              link.take();  // never comes
          }) {
        REQUIRE(party_.link().take_text() == "held");
    }
    pid_t pid() const { return party_.pid(); }
    void kill() { party_.kill(SIGKILL); }

 private:
    support::Party party_;
};

// The number of a process that is no more.
pid_t dead_process() {
    const pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    waitpid(child, nullptr, 0);
    return child;
}

}  // namespace

TEST_CASE("a segment belongs to the process that holds it", "[ofi][segments]") {
    Files files;
    const std::string name = files.expect(fresh("held"));
    Holder holder({name});
    const SegmentOwner alive = owner_of(name);
    CHECK(alive.state == State::alive);
    CHECK(alive.process == holder.pid());
    CHECK(alive.file == number_of(name));

    holder.kill();
    const SegmentOwner dead = owner_of(name);
    CHECK(dead.state == State::dead);
    CHECK(dead.file == alive.file);

    REQUIRE(until([&] { return !exists(name); }, [&] { remove_segment(name); }));
    CHECK(owner_of(name).state == State::missing);
    CHECK_FALSE(hold_segment(name));
}

TEST_CASE("a successor under the same name is another one", "[ofi][segments]") {
    Files files;
    const std::string name = files.expect(fresh("again"));
    Holder first({name});
    const SegmentOwner before = owner_of(name);
    // The file is still in use, so that its number is: as by a peer that has it mapped.
    const na::util::UniqueFd kept(open(path_of(name).c_str(), O_RDONLY | O_CLOEXEC));
    first.kill();
    REQUIRE(until([&] { return !exists(name); }, [&] { remove_segment(name); }));
    Holder second({name});
    const SegmentOwner after = owner_of(name);
    CHECK(after.state == State::alive);
    CHECK(after.process == second.pid());
    CHECK(after.file != before.file);
}

TEST_CASE("only what nobody holds is removed", "[ofi][segments]") {
    Files files;
    const std::string name = fresh("many");
    const std::string dead[] = {files.make(name), files.make(name + ".1"),
                                files.make(name + ".12")};
    // Not contexts of that name.
    const std::string others[] = {files.make(name + "x"), files.make(name + ".x"),
                                  files.make(name + ".1x"), files.make(name + "."),
                                  files.make(name + ".1.2")};
    const std::string held = files.expect(name + ".2");
    Holder holder({held});
    REQUIRE(until([&] { return std::none_of(std::begin(dead), std::end(dead), exists); },
                  [&] { mourn_now(name, 0ms); }));
    CHECK(exists(held));
    CHECK(owner_of(held).process == holder.pid());
    for (const std::string& other : others) {
        CHECK(exists(other));
    }
    holder.kill();
    REQUIRE(until([&] { return !exists(held); }, [&] { mourn_now(name, 0ms); }));
}

TEST_CASE("segments of processes that are no more are found by their names", "[ofi][segments]") {
    Files files;
    const std::string gone = std::to_string(dead_process());
    const std::string stale[] = {files.make(gone + "-3"), files.make(gone + "-3.1"),
                                 files.make(gone + "-3~12")};
    const std::string others[] = {files.make(gone), files.make(gone + "-"),
                                  files.make(gone + "-3x"), files.make("x" + gone + "-3"),
                                  files.make(gone + "-3.1x")};
    // Of processes that live: this one, one that holds its segment, one that does not (yet).
    const std::string own = files.make(std::to_string(getpid()) + "-999999");
    Holder idle({});
    const std::string unheld = files.make(std::to_string(idle.pid()) + "-0");
    // The name says dead, the lock says alive: the process may be in another pid namespace.
    const std::string held = files.expect(gone + "-4");
    Holder holder({held});
    // Whom they have greeted may not have looked yet: not at once, whoever sees them how often.
    for (int i = 0; i < 100; ++i) {
        remove_stale_segments(1s);
    }
    CHECK(std::all_of(std::begin(stale), std::end(stale), exists));
    REQUIRE(until([&] { return std::none_of(std::begin(stale), std::end(stale), exists); },
                  [] { remove_stale_segments(kMoment, 20ms); }));
    for (const std::string& other : others) {
        CHECK(exists(other));
    }
    CHECK(exists(own));
    CHECK(exists(unheld));
    CHECK(exists(held));
}

// Who was found dead by somebody, may be looked for by another one who was greeted.
TEST_CASE("what a dead one has left under a name that was given goes with others",
          "[ofi][segments]") {
    Files files;
    const std::string name = fresh("given");
    const std::string own[] = {files.make(name), files.make(name + ".1")};
    const std::string dotted = files.make(name + ".more.2");
    const std::string others[] = {files.make(name + ".x"), files.make(name + "x")};
    for (int i = 0; i < 100; ++i) {
        mourn_now(name, 1s);
        mourn_now(dotted, 1s);
        remove_stale_segments(1s);
    }
    CHECK(std::all_of(std::begin(own), std::end(own), exists));
    CHECK(exists(dotted));
    // Without being told of it again.
    REQUIRE(until([&] { return !exists(name) && !exists(name + ".1") && !exists(dotted); },
                  [] { remove_stale_segments(kMoment, 20ms); }));
    CHECK(std::all_of(std::begin(others), std::end(others), exists));
    // Nobody is told of the next ones under these names.
    for (const std::string& again : own) {
        REQUIRE(make_file(again));
    }
    for (int i = 0; i < 100; ++i) {
        remove_stale_segments(kMoment, 0ms);
    }
    CHECK(std::all_of(std::begin(own), std::end(own), exists));
}

TEST_CASE("nothing is concluded while a segment is being made", "[ofi][segments]") {
    Files files;
    const std::string name = files.make(fresh("making"));
    const std::string stale = files.make(std::to_string(dead_process()) + "-5");
    Holder holder({files.expect(fresh("made"))});
    {
        const auto gate = enter_as_maker();
        CHECK(segment_owner(name).state == State::unknown);
        remove_segment(name);
        mourn_now(name, 0ms);
        CHECK(exists(name));
        remove_stale_segments();
        CHECK(exists(stale));
        // What is held is known without the gate.
        CHECK(segment_owner(fresh("made")).process == holder.pid());
        CHECK_FALSE(SegmentGate(SegmentGate::As::judge).entered());
    }
    CHECK(owner_of(name).state == State::dead);
}

TEST_CASE("who forks in the gate does not keep it shut", "[ofi][segments]") {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    pid_t child = -1;
    {
        const auto gate = enter_as_maker();
        child = fork();
        if (child == 0) {
            close(ends[1]);
            char none;
            (void)!read(ends[0], &none, 1);
            _exit(0);
        }
    }
    CHECK(until([] { return SegmentGate(SegmentGate::As::judge).entered(); }));
    close(ends[0]);
    close(ends[1]);
    REQUIRE(child > 0);
    waitpid(child, nullptr, 0);
}

TEST_CASE("who needs a name waits for who makes a segment", "[ofi][segments]") {
    Files files;
    const std::string name = files.make(fresh("awaited"));
    std::thread maker;
    {
        auto gate = enter_as_maker();
        maker = std::thread([held = std::move(gate)] { std::this_thread::sleep_for(50ms); });
    }
    remove_segment(name);
    CHECK_FALSE(exists(name));
    maker.join();
}

TEST_CASE("what was found dead is nobody's to remove when it is taken over", "[ofi][segments]") {
    Files files;
    const std::string name = files.make(fresh("taken-over"));
    remove_stale_segments();
    mourn_now(name, 10min);
    struct stat file {};
    REQUIRE(until(
        [&] { return stat(path_of(name).c_str(), &file) == 0 && (file.st_mode & S_ISVTX) != 0; },
        [&] { mourn_now(name, 10min); }));
    const na::util::UniqueFd held = hold_segment(name);
    REQUIRE(held);
    REQUIRE(stat(path_of(name).c_str(), &file) == 0);
    CHECK((file.st_mode & S_ISVTX) == 0);
}

TEST_CASE("makers do not wait for each other", "[ofi][segments]") {
    const auto first = enter_as_maker();
    CHECK(SegmentGate(SegmentGate::As::maker).entered());
}

TEST_CASE("a process does not lose its segments by looking at them", "[ofi][segments]") {
    Files files;
    const std::string name = files.make(fresh("mine"));
    const std::string as_fabric = name + '\0';
    // Before anything here is a segment of this process: it asks this one's parent.
    support::Party other(support::Party::As::process,
                         [name, parent = getpid()](support::Link& link) {
                             link.take();
                             PARTY_REQUIRE(owner_of(name).state == State::alive);
                             PARTY_REQUIRE(owner_of(name).process == parent);
                         });
    const auto neighbour = open_neighbour(as_fabric);
    REQUIRE(neighbour != nullptr);
    const na::util::UniqueFd held = hold_segment(name);
    REQUIRE(held);
    // Closing any descriptor of the file would give up the lock.
    CHECK(segment_owner(name).state == State::alive);
    CHECK(segment_owner(name).process == 0);
    const std::string dead = files.make(name + ".1");
    REQUIRE(until([&] { return !exists(dead); }, [&] { mourn_now(name, 0ms); }));
    remove_segment(name);
    CHECK(exists(name));
    other.link().put("look");
    CHECK(other.join().empty());
    close_neighbour(as_fabric, *neighbour);
    CHECK(neighbour->state == Neighbour::State::closed);
    CHECK(find_neighbour(as_fabric) == nullptr);
}

TEST_CASE("a segment may be left behind when its endpoint closes", "[ofi][segments]") {
    Files files;
    const std::string name = files.make(std::to_string(getpid()) + "-999998");
    const ino_t file = number_of(name);
    {
        na::util::UniqueFd held = hold_segment(name);
        REQUIRE(held);
        const SegmentKeeper keeper(name, held.get(), true);
        unlink(path_of(name).c_str());  // the provider
    }
    CHECK(number_of(name) == file);
    CHECK_FALSE(exists(name + "~" + std::to_string(getpid())));
    CHECK(owner_of(name).state == State::dead);
    // As those of the dead: not at once, and not for good.
    for (int i = 0; i < 100; ++i) {
        remove_stale_segments(1s);
    }
    CHECK(exists(name));
    REQUIRE(until([&] { return !exists(name); }, [] { remove_stale_segments(kMoment, 20ms); }));
}

TEST_CASE("a segment that is left behind takes nobody's name away", "[ofi][segments]") {
    Files files;
    const std::string name = files.make(fresh("left"));
    ino_t successor = 0;
    {
        na::util::UniqueFd held = hold_segment(name);
        REQUIRE(held);
        const SegmentKeeper keeper(name, held.get(), true);
        unlink(path_of(name).c_str());
        REQUIRE(make_file(name));
        successor = number_of(name);
    }
    CHECK(number_of(name) == successor);
    CHECK_FALSE(exists(name + "~" + std::to_string(getpid())));
}

// As libfabric does, which removes what it has noted as its name.
TEST_CASE("a segment that is left behind is not missed meanwhile", "[ofi][segments]") {
    const bool last = GENERATE(true, false);
    const std::size_t at = GENERATE(100, 4090, 4096, 9000, 16384 - 40);
    Files files;
    const std::string name = files.make(fresh("noted"));
    const na::util::UniqueFd held = hold_segment(name);
    REQUIRE(held);
    std::string content(16384, '\0');
    content.replace(at, name.size(), name);
    content[at - 1] = 'x';
    if (!last) {  // then nobody knows what that is
        content[at + name.size() + 1] = 'x';
    }
    REQUIRE(pwrite(held.get(), content.data(), content.size(), 0) == std::ssize(content));
    const std::string other = name + "~" + std::to_string(getpid());
    {
        const SegmentKeeper keeper(name, held.get(), true);
        CHECK(exists(other));
        if (last) {
            content.replace(at, other.size(), other);
        }
        std::string now(content.size(), '\0');
        REQUIRE(pread(held.get(), now.data(), now.size(), 0) == std::ssize(now));
        CHECK(now == content);
        unlink(path_of(last ? other : name).c_str());
        CHECK(exists(name) == last);
    }
    CHECK(exists(name));
    CHECK_FALSE(exists(other));
}

TEST_CASE("who closes late does not remove what has come under his name", "[ofi][segments]") {
    const bool leaves = GENERATE(false, true);
    Files files;
    const std::string name = files.make(fresh("late"));
    na::util::UniqueFd held = hold_segment(name);
    REQUIRE(held);
    unlink(path_of(name).c_str());
    REQUIRE(make_file(name));
    const ino_t successor = number_of(name);
    {
        const SegmentKeeper keeper(name, held.get(), leaves);
        unlink(path_of(name).c_str());  // the provider
    }
    CHECK(number_of(name) == successor);
    CHECK_FALSE(exists(name + "~" + std::to_string(getpid())));
}

TEST_CASE("what is no segment of ours is left alone", "[ofi][segments]") {
    Files files;
    const std::string target = files.make(fresh("target"));
    const std::string link = files.expect(fresh("link"));
    REQUIRE(symlink(path_of(target).c_str(), path_of(link).c_str()) == 0);
    const std::string pipe = files.expect(fresh("pipe"));
    REQUIRE(mkfifo(path_of(pipe).c_str(), 0600) == 0);
    const std::string folder = fresh("folder");
    REQUIRE(mkdir(path_of(folder).c_str(), 0700) == 0);
    CHECK(segment_owner(link).state == State::unknown);  // not followed
    CHECK(segment_owner(folder).state == State::unknown);
    // (Nobody waits for a writer of the pipe.)
    CHECK(owner_of(pipe).state != State::alive);
    for (const std::string& name : {link, pipe, folder}) {
        const std::string after = files.make(name + ".0");
        REQUIRE(until([&] { return !exists(after); }, [&] { mourn_now(name, 0ms); }));
        CHECK(exists(name));
    }
    CHECK(exists(target));
    CHECK(rmdir(path_of(folder).c_str()) == 0);
}

// Somebody may take one for an address, and finds nobody there.
TEST_CASE("files of other programs are left alone", "[ofi][segments]") {
    Files files;
    const std::string gone = std::to_string(dead_process());
    const std::string foreign[] = {files.expect(fresh("foreign")),
                                   files.expect(fresh("foreign~") + gone), files.expect("~" + gone),
                                   files.expect(gone + "-1"), files.expect("s~" + gone)};
    for (const std::string& name : foreign) {
        const na::util::UniqueFd fd(
            open(path_of(name).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640));
        REQUIRE(pwrite(fd.get(), "\4 precious bytes", 16, 0) == 16);
        REQUIRE(pwrite(fd.get(), "or more as", 10, (1 << 16) - 10) == 10);
    }
    const std::string after = files.make(fresh("after"));
    REQUIRE(until([&] { return !exists(after); },
                  [&] {
                      for (const std::string& name : foreign) {
                          mourn(name);
                          remove_segment(name);
                      }
                      mourn_now(after, 0ms);
                  }));
    for (const std::string& name : foreign) {
        struct stat file {};
        REQUIRE(stat(path_of(name).c_str(), &file) == 0);
        CHECK((file.st_mode & 07777) == 0640);
        CHECK(file.st_size == 1 << 16);
        CHECK(use_of(name).by == NameUse::By::file);
    }
}

TEST_CASE("who is killed while he makes a segment does not keep its name", "[ofi][segments]") {
    Files files;
    const bool given = GENERATE(true, false);
    const std::string name =
        files.expect(given ? fresh("half") : std::to_string(dead_process()) + "-6");
    const na::util::UniqueFd fd(
        open(path_of(name).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    const bool begun = GENERATE(true, false);
    CAPTURE(given, begun);
    if (begun) {
        REQUIRE(ftruncate(fd.get(), 1 << 20) == 0);
        REQUIRE(pwrite(fd.get(), "\4\0\1\0\0\0\0\0\1\1", 10, 0) == 10);
    }
    CHECK(use_of(name).by == NameUse::By::nobody);
    if (given) {  // (to others it may be a file of another program)
        const std::string after = files.make(fresh("half-after"));
        REQUIRE(until([&] { return !exists(after); },
                      [&] {
                          mourn(name);
                          mourn_now(after, 0ms);
                      }));
        CHECK(exists(name));
    }
    REQUIRE(until([&] { return !exists(name); },
                  [&] {
                      if (given) {
                          remove_segment(name);
                      } else {
                          remove_stale_segments(kMoment, 0ms);
                      }
                  }));
}

TEST_CASE("who is killed while he closes leaves nothing for good", "[ofi][segments]") {
    Files files;
    const std::string name = files.make(fresh("closing"));
    const std::string other = files.expect(name + "~" + std::to_string(dead_process()));
    REQUIRE(link(path_of(name).c_str(), path_of(other).c_str()) == 0);
    const bool before = GENERATE(true, false);
    if (!before) {  // he had written it already
        const na::util::UniqueFd fd(open(path_of(name).c_str(), O_RDWR | O_CLOEXEC));
        REQUIRE(pwrite(fd.get(), other.data(), other.size(), 500) == std::ssize(other));
    }
    CHECK(use_of(name).by == NameUse::By::nobody);
    for (int i = 0; i < 100; ++i) {
        remove_stale_segments(1s);
    }
    CHECK(exists(other));
    REQUIRE(until([&] { return !exists(other); }, [] { remove_stale_segments(kMoment, 20ms); }));
    REQUIRE(until([&] { return !exists(name); }, [&] { mourn_now(name, 0ms); }));
}

TEST_CASE("another user's segment is not removed", "[ofi][segments]") {
    if (geteuid() != 0) {
        support::skip("only root can make files of other users");
        return;
    }
    Files files;
    const std::string name = files.make(fresh("theirs"));
    REQUIRE(chown(path_of(name).c_str(), 65534, 65534) == 0);
    const std::string mine = files.make(name + ".1");
    REQUIRE(until([&] { return !exists(mine); }, [&] { mourn_now(name, 0ms); }));
    CHECK(exists(name));
}

TEST_CASE("whoever posts to an endpoint of this process holds it open", "[ofi][neighbours]") {
    const std::string name = fresh("neighbour") + '\0';
    CHECK(find_neighbour(name) == nullptr);
    const auto one = open_neighbour(name);
    REQUIRE(one != nullptr);
    CHECK(open_neighbour(name) == nullptr);
    CHECK(find_neighbour(name) == one);
    std::atomic<bool> closed{false};
    std::thread closer;
    {
        const HoldOpen hold(one.get());
        CHECK_FALSE(hold.closed());
        closer = std::thread([&] {
            close_neighbour(name, *one);
            closed = true;
        });
        // Nobody finds it any more, and it is not closed before the post has ended.
        REQUIRE(until([&] { return find_neighbour(name) == nullptr; }));
        CHECK_FALSE(closed);
    }
    closer.join();
    CHECK(HoldOpen(one.get()).closed());
    CHECK_FALSE(HoldOpen(nullptr).closed());
    // A successor is another one; closing the former again does not take its name.
    const auto two = open_neighbour(name);
    REQUIRE(two != nullptr);
    close_neighbour(name, *one);
    CHECK(find_neighbour(name) == two);
    close_neighbour(name, *two);
}
