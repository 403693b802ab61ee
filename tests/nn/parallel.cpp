// The parallel loop: every index once, on no more threads than asked, and exceptions reach the caller.
#include <doctest/doctest.h>

#include <algorithm>
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

TEST_CASE("ranges cover each index once, in whole blocks of 16, on no more threads than the work is worth") {
#ifdef _OPENMP
    const int before = omp_get_max_threads();
    omp_set_num_threads(7);
#endif
    for (const std::size_t count : {1, 15, 16, 17, 100, 1000})
        for (const double work : {0.0, 1.9e5, 2.1e5, 1e9}) {
            std::vector<int> visits(count, 0), calls(detail::threads_for(work), 0);
            std::atomic<bool> right = true;
            detail::parallel_ranges(count, work, [&](std::size_t begin, std::size_t end, std::size_t range) {
                if (begin % 16 != 0 || begin >= end || end > count || (end < count && end % 16 != 0) ||
                    range >= calls.size()) {
                    right = false;
                    return;
                }
                ++calls[range];
                for (std::size_t i = begin; i < end; ++i) ++visits[i];
            });
            CAPTURE(count);
            CAPTURE(work);
            CHECK(right);
            CHECK(visits == std::vector<int>(count, 1));
            CHECK(calls[0] == 1);
            CHECK(std::is_sorted(calls.rbegin(), calls.rend()));  // numbered from 0, and each number once
            if (count == 1000) CHECK(calls.back() == 1);          // all of the threads
        }
    detail::parallel_ranges(0, 1e9, [](std::size_t, std::size_t, std::size_t) { FAIL("there is nothing to visit"); });
#ifdef _OPENMP
    omp_set_num_threads(before);
#endif
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
