// SPDX-License-Identifier: BSD-3-Clause
//
// The one place that decides how many threads run. Without OpenMP everything runs on one.
#pragma once

#include <algorithm>
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

/// Calls `body(i, worker)` for i in [0, count), on at most `threads` threads; `worker`, below `threads`, is the number
/// of the one that runs it. The first exception is thrown again when all threads have stopped.
template <class Body>
void parallel_for(std::size_t count, std::size_t threads, Body&& body) {
    std::exception_ptr failure;
#ifdef _OPENMP
    if (threads > count) threads = count;
    if (threads > 1) {
        bool failed = false;
#pragma omp parallel for schedule(dynamic) num_threads(static_cast <int>(threads)) shared(failed, failure)
        for (std::size_t i = 0; i < count; ++i) {
            bool skip = false;
#pragma omp atomic read
            skip = failed;
            if (skip) continue;
            try {
                body(i, static_cast<std::size_t>(omp_get_thread_num()));
            } catch (...) {
#pragma omp critical(normplace_parallel_for)
                if (!failure) failure = std::current_exception();
#pragma omp atomic write
                failed = true;
            }
        }
        if (failure) std::rethrow_exception(failure);
        return;
    }
#endif
    (void)threads;
    for (std::size_t i = 0; i < count; ++i) body(i, std::size_t{0});
}

/// Calls `body(begin, end, range)` for ranges that make up [0, count), numbered from 0, one for each of the
/// threads_for(work) threads. The ranges depend on nothing but the arguments and the number of threads. All but the
/// last begin and end at multiples of 16, which is what a matrix product's kernel and a cache line like.
template <class Body>
void parallel_ranges(std::size_t count, double work, Body&& body) {
    const std::size_t threads = threads_for(work);
    if (threads <= 1) {
        if (count) body(std::size_t{0}, count, std::size_t{0});
        return;
    }
    const std::size_t share = ((count + threads - 1) / threads + 15) / 16 * 16;
    const std::size_t ranges = share ? (count + share - 1) / share : 0;
    parallel_for(ranges, threads, [&](std::size_t range, std::size_t) {
        body(range * share, std::min(count, (range + 1) * share), range);
    });
}

}  // namespace normplace::detail
