// SPDX-License-Identifier: BSD-3-Clause
//
// The one place that decides how many threads run. Without OpenMP everything runs on one.
#pragma once

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

}  // namespace normplace::detail
