// SPDX-License-Identifier: BSD-3-Clause
//
// Draws that are the same on every platform. The standard fixes what its engines give, and leaves each library its own
// std::uniform_int_distribution and std::shuffle: these two replace them, so that a seed fixes a corpus and the order
// in which it is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace normplace::detail {

class PortableRandom {
public:
    /// Other draws for each pair; a pair may be a run's seed and its epoch.
    explicit PortableRandom(std::uint64_t seed, std::uint64_t stream = 0) {
        // seed_seq keeps 32 bits of each entry
        std::seed_seq sequence{seed & 0xffffffffu, seed >> 32, stream & 0xffffffffu, stream >> 32};
        engine_.seed(sequence);
    }

    /// Uniform over 0, ..., limit - 1; 0 when limit is 0.
    std::uint64_t below(std::uint64_t limit) {
        if (limit == 0) return 0;
        // The last 2^64 mod limit values would favour the small results.
        const std::uint64_t surplus = (UINT64_MAX % limit + 1) % limit;
        std::uint64_t value = engine_();
        while (value > UINT64_MAX - surplus) value = engine_();
        return value % limit;
    }

    /// Uniform over [0, 1)
    double unit() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

    template <class T>
    void shuffle(std::vector<T>& values) {
        for (std::size_t i = values.size(); i > 1; --i)
            std::swap(values[i - 1], values[static_cast<std::size_t>(below(i))]);
    }

private:
    std::mt19937_64 engine_;
};

}  // namespace normplace::detail
