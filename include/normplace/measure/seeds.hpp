// SPDX-License-Identifier: BSD-3-Clause
//
// What every measurement does with its seeds: run them in parallel, each thread with a network of its own, and average
// what they saw.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include <normplace/analysis/report.hpp>
#include <normplace/detail/blas.hpp>
#include <normplace/detail/parallel.hpp>

namespace normplace::detail {

/// Calls `measure(seed, network)` for each of `options.seeds` seeds, on at most `options.threads` threads (0: as many
/// as OpenMP would use), and `options.progress` after each. `make()` returns a std::unique_ptr to a thread's network.
template <class Options, class Make, class Measure>
void for_each_seed(const Options& options, const Make& make, const Measure& measure) {
    const std::size_t threads = std::min(options.threads ? options.threads : thread_count(), options.seeds);
    std::vector<decltype(make())> networks(threads);
    std::size_t done = 0;
    std::mutex mutex;
    const SingleThreadedBlas single_threaded_blas;  // the seeds are parallel instead
    parallel_for(options.seeds, threads, [&](std::size_t seed, std::size_t worker) {
        auto& network = networks[worker];
        if (!network) network = make();
        measure(seed, *network);
        if (!options.progress) return;
        const std::lock_guard lock(mutex);
        options.progress(++done, options.seeds);
    });
}

/// The mean of the seeds' values and its standard error; one seed has none (NaN).
inline Moment mean_over_seeds(const std::vector<double>& values) {
    const double count = static_cast<double>(values.size());
    double sum = 0.0, sum_of_squares = 0.0;
    for (const double value : values) sum += value;
    const double mean = sum / count;
    for (const double value : values) sum_of_squares += (value - mean) * (value - mean);
    return {mean, values.size() > 1 ? std::sqrt(sum_of_squares / (count * (count - 1.0))) : not_available};
}

/// The root of the mean of squares. Its standard error is that of the mean square over twice the root.
inline Moment root_mean_square_over_seeds(const std::vector<double>& squares) {
    const Moment mean = mean_over_seeds(squares);
    const double root = std::sqrt(mean.value);
    return {root, mean.value > 0.0 ? mean.standard_error / (2.0 * root) : mean.standard_error};
}

}  // namespace normplace::detail
