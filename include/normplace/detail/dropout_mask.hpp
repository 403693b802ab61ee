// SPDX-License-Identifier: BSD-3-Clause
//
// Which entries dropout drops, as kernels take it: a function of a seed and of an entry's place, never a tensor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace normplace::detail {

/// The next number of SplitMix64 (Steele, Lea and Flood 2014).
inline std::uint64_t split_mix(std::uint64_t z) {
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/// An independent seed for one of the places below `seed`.
inline std::uint64_t seed_at(std::uint64_t seed, std::uint64_t place) { return split_mix(split_mix(seed) ^ place); }

/// An entry is dropped where its 32 random bits are below the threshold, else multiplied by the scale. The default
/// drops none.
struct DropoutMask {
    std::uint64_t seed = 0;
    std::uint32_t threshold = 0;
    double scale = 1.0;
};

// What a loop over a tile of attention weights drops. Row r of the tile has a seed of its own, and its columns count
// from `first`: neither the tile's size nor its place changes what an entry gets.

template <class T>
struct RowDropout {
    std::uint64_t seed;
    std::uint32_t first, threshold;
    T scale;
};
template <class T>
struct TileDropout {
    const std::uint64_t* seeds;
    std::uint32_t first, threshold;
    T scale;
    RowDropout<T> row(std::size_t r) const { return {seeds[r], first, threshold, scale}; }
};
struct NoDropout {
    NoDropout row(std::size_t) const { return {}; }
};

}  // namespace normplace::detail
