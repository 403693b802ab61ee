// SPDX-License-Identifier: BSD-3-Clause
//
// A pack is as many scalars as fit into one vector register; the compilers' own vector types, so arithmetic is written
// as for scalars, and `a < b ? a : b` picks lane by lane.

template <class T>
struct PackOf {
    using Integer = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    typedef T type __attribute__((vector_size(NORMPLACE_VECTOR_BYTES)));
    typedef Integer integers __attribute__((vector_size(NORMPLACE_VECTOR_BYTES)));
};
template <class T>
using Pack = typename PackOf<T>::type;
template <class T>
using IntegerPack = typename PackOf<T>::integers;
template <class T>
inline constexpr std::size_t lanes = NORMPLACE_VECTOR_BYTES / sizeof(T);

template <class T>
NORMPLACE_INLINE Pack<T> all(T value) {
    return value - Pack<T>{};
}
template <class T>
NORMPLACE_INLINE Pack<T> load(const T* from) {
    Pack<T> pack;
    __builtin_memcpy(&pack, from, sizeof(pack));
    return pack;
}
template <class T>
NORMPLACE_INLINE void store(T* to, const Pack<T>& pack) {
    __builtin_memcpy(to, &pack, sizeof(pack));
}
/// The end of a row: `count` scalars, fewer than a pack; the other lanes are `rest`.
template <class T>
NORMPLACE_INLINE Pack<T> load_end(const T* from, std::size_t count, T rest = T(0)) {
    Pack<T> pack = all(rest);
    for (std::size_t i = 0; i < count; ++i) pack[i] = from[i];
    return pack;
}
template <class T>
NORMPLACE_INLINE void store_end(T* to, const Pack<T>& pack, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) to[i] = pack[i];
}

/// The number of scalars before the first that begins a pack's own place in memory. The containers that users hand us
/// are aligned to 16 bytes, and a store across two cache lines costs as much as two or three.
template <class T>
NORMPLACE_INLINE std::size_t head_of(const T* row) {
    return (-reinterpret_cast<std::uintptr_t>(row) & (NORMPLACE_VECTOR_BYTES - 1)) / sizeof(T);
}

/// The pack as it is, for a compiler that is allowed to reorder sums (-ffast-math).
template <class P>
NORMPLACE_INLINE void keep(P& pack) {
#if defined(__x86_64__)
    __asm__("" : "+v"(pack));
#elif defined(__aarch64__)
    __asm__("" : "+w"(pack));
#else
    __asm__("" : "+m"(pack));
#endif
}

struct Add {
    template <class P>
    static NORMPLACE_INLINE P of(const P& a, const P& b) {
        return a + b;
    }
};
struct Larger {
    template <class P>
    static NORMPLACE_INLINE P of(const P& a, const P& b) {
        return a > b ? a : b;
    }
};
/// All lanes of a pack put together, by halving.
template <class Operation, class T>
NORMPLACE_INLINE T reduce(Pack<T> p) {
    if constexpr (lanes<T> == 16) {
        p = Operation::of(p, __builtin_shufflevector(p, p, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
        p = Operation::of(p, __builtin_shufflevector(p, p, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
        p = Operation::of(p, __builtin_shufflevector(p, p, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
        p = Operation::of(p, __builtin_shufflevector(p, p, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
    } else if constexpr (lanes<T> == 8) {
        p = Operation::of(p, __builtin_shufflevector(p, p, 4, 5, 6, 7, 0, 1, 2, 3));
        p = Operation::of(p, __builtin_shufflevector(p, p, 2, 3, 0, 1, 6, 7, 4, 5));
        p = Operation::of(p, __builtin_shufflevector(p, p, 1, 0, 3, 2, 5, 4, 7, 6));
    } else if constexpr (lanes<T> == 4) {
        p = Operation::of(p, __builtin_shufflevector(p, p, 2, 3, 0, 1));
        p = Operation::of(p, __builtin_shufflevector(p, p, 1, 0, 3, 2));
    } else {
        static_assert(lanes<T> == 2);
        p = Operation::of(p, __builtin_shufflevector(p, p, 1, 0));
    }
    return p[0];
}
template <class T>
NORMPLACE_INLINE T sum(const Pack<T>& pack) {
    return reduce<Add, T>(pack);
}
