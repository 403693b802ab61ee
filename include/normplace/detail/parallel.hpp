// SPDX-License-Identifier: BSD-3-Clause
//
// The one place that decides how many threads run. Without OpenMP everything runs on one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace normplace::detail {

/// The number of threads that a parallel loop uses when it is not told: OpenMP's, so OMP_NUM_THREADS is obeyed; 1
/// inside a parallel loop.
inline std::size_t thread_count() {
#ifdef _OPENMP
    return omp_in_parallel() ? 1 : static_cast<std::size_t>(omp_get_max_threads());
#else
    return 1;
#endif
}

/// The number of threads for `work` scalar operations: each gets enough to be worth its start, some 5 microseconds.
inline std::size_t threads_for(double work) {
    constexpr double least = 1e5;
    return work < 2.0 * least ? 1 : std::min(thread_count(), static_cast<std::size_t>(work / least));
}

/// The first exception that any thread throws, for the caller.
class FirstException {
public:
    template <class Body>
    void guard(Body&& body) noexcept {
        try {
            body();
        } catch (...) {
            if (!caught_.test_and_set()) exception_ = std::current_exception();
        }
    }
    bool caught() const { return caught_.test(); }
    void rethrow() {
        if (exception_) std::rethrow_exception(exception_);
    }

private:
    std::atomic_flag caught_;
    std::exception_ptr exception_;
};

/// Calls `body(i, worker)` for i in [0, count), on at most `threads` threads; `worker`, below `threads`, is the number
/// of the one that runs it. The first exception is thrown again when all threads have stopped.
template <class Body>
void parallel_for(std::size_t count, std::size_t threads, Body&& body) {
#ifdef _OPENMP
    if (threads > count) threads = count;
    if (threads > 1) {
        FirstException failure;
#pragma omp parallel for schedule(dynamic) num_threads(static_cast <int>(threads)) shared(failure)
        for (std::size_t i = 0; i < count; ++i)
            if (!failure.caught()) failure.guard([&] { body(i, static_cast<std::size_t>(omp_get_thread_num())); });
        return failure.rethrow();
    }
#endif
    (void)threads;
    for (std::size_t i = 0; i < count; ++i) body(i, std::size_t{0});
}

/// Calls `body(begin, end, range)` for ranges that make up [0, count), numbered from 0, one for each of the
/// threads_for(work) threads. The ranges depend on nothing but the arguments and the number of threads, and a thread
/// gets the same one each time, which it may still have in its cache. All but the last begin and end at multiples of
/// 16, which is what a matrix product's kernel and a cache line like.
template <class Body>
void parallel_ranges(std::size_t count, double work, Body&& body) {
    if (count == 0) return;
#ifdef _OPENMP
    const std::size_t threads = threads_for(work);
    const std::size_t share = ((count + threads - 1) / threads + 15) / 16 * 16, ranges = (count + share - 1) / share;
    if (ranges > 1) {
        FirstException failure;
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(ranges)) shared(failure)
        for (std::size_t range = 0; range < ranges; ++range)
            failure.guard([&] { body(range * share, std::min(count, (range + 1) * share), range); });
        return failure.rethrow();
    }
#endif
    (void)work;
    body(std::size_t{0}, count, std::size_t{0});
}

}  // namespace normplace::detail
