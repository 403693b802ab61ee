// The parallel loop: every index once, on no more threads than asked, and exceptions reach the caller.
#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include <normplace/detail/parallel.hpp>

using namespace normplace;

TEST_CASE("every index is visited once, whatever the number of threads") {
    for (const std::size_t threads : {1, 2, 7, 100}) {
        std::vector<int> visits(53, 0);
        std::atomic<bool> in_range = true;
        detail::parallel_for(visits.size(), threads, [&](std::size_t i, std::size_t worker) {
            ++visits[i];
            if (worker >= threads) in_range = false;
        });
        CHECK(visits == std::vector<int>(53, 1));
        CHECK(in_range);
    }
    detail::parallel_for(0, 4, [](std::size_t, std::size_t) { FAIL("there is nothing to visit"); });
}

TEST_CASE("an exception reaches the caller, and the loop can be used again") {
    for (const std::size_t threads : {1, 4}) {
        CHECK_THROWS_WITH(detail::parallel_for(100, threads,
                                               [](std::size_t i, std::size_t) {
                                                   if (i == 42) throw std::runtime_error("index 42");
                                               }),
                          "index 42");
        std::atomic<int> count = 0;
        detail::parallel_for(10, threads, [&](std::size_t, std::size_t) { ++count; });
        CHECK(count == 10);
    }
}

TEST_CASE("a loop inside a parallel loop stays on its thread") {
    std::atomic<bool> one = true;
    detail::parallel_for(4, 2, [&](std::size_t, std::size_t) {
#ifdef _OPENMP
        if (omp_in_parallel() && detail::thread_count() != 1) one = false;
#endif
    });
    CHECK(one);
}

TEST_CASE("inside a parallel region of the caller's, the loop is one worker's, and that is number 0") {
    std::atomic<int> wrong = 0;
#ifdef _OPENMP
#pragma omp parallel for num_threads(4)
#endif
    for (int outer = 0; outer < 8; ++outer)
        detail::parallel_for(3, detail::thread_count(), [&](std::size_t, std::size_t worker) {
            if (detail::thread_count() == 1 && worker != 0) ++wrong;
        });
    CHECK(wrong == 0);
}
