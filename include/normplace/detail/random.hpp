// SPDX-License-Identifier: BSD-3-Clause
//
// Standard normal draws. Not std::normal_distribution: that one is another sequence in every standard library, while a
// seed is to mean the same weights everywhere, and it takes half of the time of a measurement.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <type_traits>

namespace normplace {

/// The engine that all drawing uses. The caller owns it, so a seed fixes every weight.
using RandomEngine = std::mt19937_64;

namespace detail {

/// A uniform number in (0, 1] from the upper bits of `bits`; never 0, whose logarithm Box and Muller could not take.
template <class T>
T open_unit(std::uint64_t bits) {
    if constexpr (std::is_same_v<T, float>) return (static_cast<float>(bits >> 32) + 0.5f) * 0x1p-32f;
    else return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

/// entries[i] = deviation * z_i, z_i independent N(0, 1). Box and Muller 1958: two draws from two uniform numbers. For
/// float 32 bits make each, which reaches 6.7 standard deviations.
template <class T>
void fill_gaussian(T* entries, std::size_t count, T deviation, RandomEngine& random) {
    for (std::size_t i = 0; i < count; i += 2) {
        const std::uint64_t first = random(), second = std::is_same_v<T, float> ? first << 32 : random();
        const T radius = deviation * std::sqrt(T(-2) * std::log(open_unit<T>(first)));
        const T angle = T(6.283185307179586477) * open_unit<T>(second);
        entries[i] = radius * std::cos(angle);
        if (i + 1 < count) entries[i + 1] = radius * std::sin(angle);
    }
}

/// entries[i] uniform in (-bound, bound].
template <class T>
void fill_uniform(T* entries, std::size_t count, T bound, RandomEngine& random) {
    for (std::size_t i = 0; i < count; ++i) entries[i] = bound * (T(2) * open_unit<T>(random()) - T(1));
}

}  // namespace detail
}  // namespace normplace
