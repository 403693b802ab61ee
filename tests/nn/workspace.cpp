// The workspace: loans do not overlap, are aligned, and are found again.
#include <doctest/doctest.h>

#include <cstdint>
#include <thread>

#include <normplace/detail/workspace.hpp>

using normplace::detail::Scratch;

namespace {
template <class T>
std::uintptr_t place(Scratch<T>& loan) {
    return reinterpret_cast<std::uintptr_t>(loan.data());
}
}  // namespace

TEST_CASE("loans are aligned and do not overlap") {
    Scratch<float> first(3), second(1000);
    Scratch<double> third(100000);  // more than a first block holds
    for (const std::uintptr_t p : {place(first), place(second), place(third)})
        CHECK(p % normplace::detail::Workspace::alignment == 0);
    for (std::size_t i = 0; i < 3; ++i) first.data()[i] = 1.0f;
    for (std::size_t i = 0; i < 1000; ++i) second.data()[i] = 2.0f;
    for (std::size_t i = 0; i < 100000; ++i) third.data()[i] = 3.0;
    CHECK(first.data()[2] == 1.0f);
    CHECK(second.data()[999] == 2.0f);
}

TEST_CASE("memory that was given back is lent again, also while an earlier loan is open") {
    { const Scratch<float> most(5000); }
    const Scratch<float> open(10);
    std::uintptr_t before = 0;
    {
        Scratch<float> loan(1000);
        before = place(loan);
    }
    Scratch<float> again(1000);
    CHECK(place(again) == before);
}

TEST_CASE("after a call that needed several blocks, one holds it all") {
    const auto call = [] {
        Scratch<float> a(200000), b(300000);
        return place(b) - place(a);
    };
    call();
    CHECK(call() == 200000 * sizeof(float));  // side by side
}

TEST_CASE("each thread has its own") {
    Scratch<float> mine(16);
    std::uintptr_t theirs = 0;
    std::thread([&] {
        Scratch<float> loan(16);
        theirs = place(loan);
    }).join();
    CHECK(theirs != place(mine));
}
