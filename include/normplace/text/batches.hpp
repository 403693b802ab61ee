// SPDX-License-Identifier: BSD-3-Clause
//
// Which examples go together: batches of examples of about the same length, so that little of a batch is padding.
// Every example is in one batch of an epoch. What is in a batch and the order of the batches follow from seed and
// epoch, on every platform: a run that is resumed at an epoch's batch 17 sees what it would have seen.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <normplace/text/portable_random.hpp>

namespace normplace {

/// In tokens, as they stand in a batch, with begin and end (padded_batch.hpp: example_lengths). A side that there is
/// not is 0.
struct ExampleLength {
    std::size_t source = 0, target = 0;
    std::size_t longer() const { return std::max(source, target); }
};

/// A batch: indices of examples.
using Batch = std::vector<std::size_t>;

/// Limits of a batch; at least one of them. With `examples` alone every batch has exactly so many, except one that has
/// what is left.
struct BatchOptions {
    std::size_t tokens = 0;    ///< of each side, padding included: examples x the longest; 0: no limit
    std::size_t examples = 0;  ///< 0: no limit
    bool by_length = true;     ///< false: a batch is any examples, as in an experiment that wants them independent
};

/// The batches of an epoch. Examples are shuffled, sorted by length (those of the same length stay shuffled), cut where
/// the next would exceed a limit, and the batches shuffled. Every epoch has as many batches, unless `tokens` limits
/// batches that are not by length.
/// @throws std::invalid_argument without a limit, and when an example alone has more tokens than a batch may have
inline std::vector<Batch> make_batches(const std::vector<ExampleLength>& lengths, const BatchOptions& options,
                                       std::uint64_t seed, std::uint64_t epoch) {
    if (options.tokens == 0 && options.examples == 0)
        throw std::invalid_argument("make_batches: neither tokens nor examples limits a batch");
    if (options.tokens)
        for (std::size_t i = 0; i < lengths.size(); ++i)
            if (lengths[i].longer() > options.tokens)
                throw std::invalid_argument("make_batches: example " + std::to_string(i) + " has " +
                                            std::to_string(lengths[i].longer()) + " tokens, and a batch at most " +
                                            std::to_string(options.tokens));

    detail::PortableRandom random(seed, epoch);
    std::vector<std::size_t> order(lengths.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    random.shuffle(order);
    if (options.by_length)
        std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
            return lengths[a].target != lengths[b].target ? lengths[a].target < lengths[b].target
                                                          : lengths[a].source < lengths[b].source;
        });

    std::vector<Batch> batches;
    std::size_t longest = 0;
    for (const std::size_t example : order) {
        longest = std::max(longest, lengths[example].longer());
        const std::size_t size = batches.empty() ? 0 : batches.back().size() + 1;
        // A division, because the product may overflow.
        const bool full = (options.examples && size > options.examples) ||
                          (options.tokens && longest && size > options.tokens / longest);
        if (batches.empty() || full) {
            batches.emplace_back();
            longest = lengths[example].longer();
        }
        batches.back().push_back(example);
    }
    random.shuffle(batches);
    return batches;
}

/// The share, 0 to 1, of the tokens of both sides that is not padding; 1 when there are none.
/// @throws std::out_of_range when a batch has an index that is not one of `lengths`
inline double padding_efficiency(const std::vector<ExampleLength>& lengths, const std::vector<Batch>& batches) {
    double tokens = 0.0, padded = 0.0;
    for (const Batch& batch : batches) {
        ExampleLength longest;
        for (const std::size_t example : batch) {
            const ExampleLength length = lengths.at(example);
            tokens += static_cast<double>(length.source) + static_cast<double>(length.target);
            longest = {std::max(longest.source, length.source), std::max(longest.target, length.target)};
        }
        padded += static_cast<double>(batch.size()) *
                  (static_cast<double>(longest.source) + static_cast<double>(longest.target));
    }
    return padded > 0.0 ? tokens / padded : 1.0;
}

}  // namespace normplace
