// SPDX-License-Identifier: BSD-3-Clause
//
// Scratch memory that a thread borrows for the length of a call and finds again at the next: a fresh page costs more
// than a kernel's whole pass over it. Loans are returned in the reverse order, which their scopes see to.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <vector>

namespace normplace::detail {

class Workspace {
public:
    static constexpr std::size_t alignment = 64;  // a cache line, and the largest vector register

    static Workspace& of_this_thread() {
        thread_local Workspace workspace;
        return workspace;
    }

    std::byte* borrow(std::size_t bytes) {
        bytes = (bytes + alignment - 1) / alignment * alignment;
        if (blocks_.empty() || blocks_.back().size - used_ < bytes) grow(bytes);
        std::byte* loan = blocks_.back().memory.get() + used_;
        used_ += bytes;
        ++loans_;
        return loan;
    }
    void give_back(std::byte* loan) {
        if (--loans_ == 0) {
            used_ = 0;
            if (blocks_.size() > 1) blocks_.clear();  // the next block is as large as all of them
        } else if (loan >= blocks_.back().memory.get() && loan < blocks_.back().memory.get() + blocks_.back().size) {
            used_ = static_cast<std::size_t>(loan - blocks_.back().memory.get());
        }
    }

private:
    struct Free {
        void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t(alignment)); }
    };
    struct Block {
        std::unique_ptr<std::byte, Free> memory;
        std::size_t size;
    };

    static Block block(std::size_t bytes) {
        return {std::unique_ptr<std::byte, Free>(
                    static_cast<std::byte*>(::operator new(bytes, std::align_val_t(alignment)))),
                bytes};
    }
    void grow(std::size_t bytes) {
        const std::size_t size = blocks_.empty() ? std::max(bytes, total_) : bytes;
        blocks_.push_back(block(size));
        total_ = blocks_.size() == 1 ? size : total_ + size;
        used_ = 0;
    }

    std::vector<Block> blocks_;
    std::size_t total_ = 0;  // of the blocks there are or were
    std::size_t used_ = 0;   // of the last block
    std::size_t loans_ = 0;  // open
};

/// `count` scalars of this thread's workspace, uninitialised, until the end of the scope.
template <class T>
class Scratch {
public:
    explicit Scratch(std::size_t count)
        : data_(reinterpret_cast<T*>(Workspace::of_this_thread().borrow(count * sizeof(T)))) {}
    ~Scratch() { Workspace::of_this_thread().give_back(reinterpret_cast<std::byte*>(data_)); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    T* data() { return data_; }

private:
    T* data_;
};

}  // namespace normplace::detail
