// SPDX-License-Identifier: BSD-3-Clause
//
// Dropout. The random number of a tensor's entry is a function of a key and of the entry's index alone: nothing is
// stored, and every thread, instruction set and scalar type drops the same entries.

/// MurmurHash3's finaliser for 32 bits (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators").
/// Lanes of 64 bits hold a number of 32.
template <class T>
NORMPLACE_INLINE IntegerPack<T> scramble(IntegerPack<T> h) {
    using Integer = typename PackOf<T>::Integer;
    constexpr Integer low = 0xffffffffu;
    h ^= h >> 16;
    h = (h * Integer(0x85ebca6bu)) & low;
    h ^= h >> 13;
    h = (h * Integer(0xc2b2ae35u)) & low;
    h ^= h >> 16;
    return h;
}

/// 0 or `scale` for the entries from `index` on. Half of the key comes between two hashes, since before the first alone
/// it would give every key the same numbers in another order.
template <class T>
NORMPLACE_INLINE Pack<T> dropout_factors(std::uint32_t index, std::uint64_t key, std::uint32_t threshold, T scale) {
    using Integer = typename PackOf<T>::Integer;
    IntegerPack<T> h{};
    for (std::size_t lane = 0; lane < lanes<T>; ++lane) h[lane] = index + static_cast<std::uint32_t>(lane);
    h = scramble<T>(h ^ Integer(static_cast<std::uint32_t>(key)));
    h = scramble<T>(h ^ Integer(key >> 32));
    return h < Integer(threshold) ? Pack<T>{} : all(scale);
}

// The weights p of a tile's row from its column j on, with those that are dropped 0 and the others scaled.

template <class T>
NORMPLACE_INLINE Pack<T> dropped(const Pack<T>& p, const RowDropout<T>& row, std::size_t j) {
    return p * dropout_factors(row.first + static_cast<std::uint32_t>(j), row.seed, row.threshold, row.scale);
}
template <class T>
NORMPLACE_INLINE Pack<T> dropped(const Pack<T>& p, NoDropout, std::size_t) {
    return p;
}

/// y = scale x where the entry's random number is at least `threshold`, 0 x elsewhere, for entries whose indices begin
/// at `index` and stay below 2^32. y may be x.
template <class T>
void dropout(const T* x, T* y, std::size_t count, std::uint32_t index, std::uint64_t key, std::uint32_t threshold,
             T scale) {
    const auto at = [&](std::size_t i) { return index + static_cast<std::uint32_t>(i); };
    std::size_t i = std::min(count, head_of(y));
    if (i) store_end(y, load_end(x, i) * dropout_factors(at(0), key, threshold, scale), i);
    for (; i + lanes<T> <= count; i += lanes<T>)
        store(y + i, load(x + i) * dropout_factors(at(i), key, threshold, scale));
    if (i < count)
        store_end(y + i, load_end(x + i, count - i) * dropout_factors(at(i), key, threshold, scale), count - i);
}
