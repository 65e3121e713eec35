// SPDX-License-Identifier: BSD-3-Clause
// Parts of the core without a context around them: a class over the loop transport, operations,
// addresses.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "na/core/class.hpp"
#include "na/core/op.hpp"

namespace na::inline impl {

// What unit tests set that otherwise the context does.
struct OperationProbe {
    static void set_address(Operation& op, Address* address) {
        op.address_ = address;
        op.peer = address == nullptr ? nullptr : &address->peer();
    }
    static void set_state(Operation& op, Operation::State s) { op.set_state(s); }
};

}  // namespace na::inline impl

namespace core_test {

struct Core {
    explicit Core(const na::InitInfo& info = {}) {
        auto opened = na::Class::open("loop+loop", true, info);
        if (!opened) {
            throw std::runtime_error(opened.error().message);
        }
        cls = std::move(*opened);
    }
    na::AddressRef address(const std::string& name) {
        auto found = cls->lookup("loop://" + name);
        if (!found) {
            throw std::runtime_error(found.error().message);
        }
        return std::move(*found);
    }
    std::unique_ptr<na::Class> cls;
};

// An operation, destroyed with the object.
class TestOp {
 public:
    explicit TestOp(Core& core, bool multi = false) : core_(core), op_(core.cls->create_op(multi)) {
        op_->owner = this;
    }
    ~TestOp() { core_.cls->destroy_op(op_); }
    TestOp(const TestOp&) = delete;
    TestOp& operator=(const TestOp&) = delete;
    na::Operation& operator*() noexcept { return *op_; }
    na::Operation* operator->() noexcept { return op_; }
    static TestOp& of(na::Operation& op) noexcept { return *static_cast<TestOp*>(op.owner); }

    std::vector<na::Outcome> outcomes;

 private:
    Core& core_;
    na::Operation* op_;
};

}  // namespace core_test
