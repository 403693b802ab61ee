// SPDX-License-Identifier: BSD-3-Clause
//
// exp without a branch: x = n ln(2)/steps + r with n an integer and |r| <= ln(2)/(2 steps), then 2^(n/steps) times a
// polynomial in r. As many steps as a register holds floats, where it holds 16: one instruction then looks 2^(1/16),
// 2^(2/16), ... up, and degree 3 does in place of 6. In a row of softmax the units for vectors are busy all the time.
//
// Within 1.2 ulp where the result is a normal number; NaN stays NaN.

#if NORMPLACE_VECTOR_BYTES == 64
/// 2^(n/16) for n from -16 * 127, where it is 0, to 16 * 127; the leading bits of `n` may be anything.
NORMPLACE_INLINE Pack<float> sixteenth_power(const IntegerPack<float>& n) {
    // 2^(i/16) as bits, less the i/16 that n, shifted to the exponent, adds to it.
    constexpr IntegerPack<float> roots = {0x3f800000, 0x3f7daac3, 0x3f7b95c2, 0x3f79c3d3, 0x3f7837f0, 0x3f76f532,
                                          0x3f75fed7, 0x3f75583f, 0x3f7504f3, 0x3f7508a4, 0x3f75672a, 0x3f76248c,
                                          0x3f7744fd, 0x3f78ccdf, 0x3f7ac0c7, 0x3f7d257d};
#if defined(__clang__)
    typedef int Index __attribute__((vector_size(NORMPLACE_VECTOR_BYTES)));
    const auto root = (IntegerPack<float>)__builtin_ia32_permvarsf512((Pack<float>)roots, (Index)n);
#else
    const IntegerPack<float> root = __builtin_shuffle(roots, n);
#endif
    return (Pack<float>)(root + (n << 19));
}
#endif

/// Where exp becomes infinity, a little before it must.
template <class T>
inline constexpr T exp_limit = sizeof(T) == 4 ? T(88.37) : T(709.4);

/// exp(x) for x up to exp_limit. Where the result is no normal number it is 0, or between that and the smallest.
template <class T>
NORMPLACE_INLINE Pack<T> bounded_exp(Pack<T> x) {
    constexpr bool is_float = sizeof(T) == 4, by_table = is_float && NORMPLACE_VECTOR_BYTES == 64;
    constexpr int mantissa_bits = is_float ? 23 : 52, bias = is_float ? 127 : 1023;
    constexpr T steps = by_table ? T(16) : T(1);
    // A number plus `rounder` has the nearest integer in its last bits, without a table plus the exponent's bias:
    // shifted to the place of the exponent, where the leading bits fall off, they are 2^n.
    constexpr T rounder = (is_float ? T(12582912.0) : T(6755399441055744.0)) + (by_table ? T(0) : T(bias));
    constexpr T lowest = is_float ? T(-88.0296919) : T(-709.08956571282410);  // -bias ln 2: there 2^n is 0
    constexpr T ln2_high = (is_float ? T(0.693359375) : T(6.93147180369123816490e-01)) / steps;
    constexpr T ln2_low = (is_float ? T(-2.12194440e-4) : T(1.90821492927058770002e-10)) / steps;

    Pack<T> least = all(lowest);
    keep(least);                // the larger of two registers is one instruction; with a constant, g++ makes two of it
    x = least > x ? least : x;  // so written, NaN passes
    Pack<T> shifted = x * (steps * T(1.44269504088896340736)) + rounder;
    keep(shifted);
    Pack<T> n = shifted - rounder;
    keep(n);
    Pack<T> reduced = x - n * ln2_high;
    keep(reduced);
    const Pack<T> r = reduced - n * ln2_low;
#if NORMPLACE_VECTOR_BYTES == 64
    if constexpr (by_table) {  // the best of degree 3 in relative error (2e-9)
        const Pack<T> power = sixteenth_power((IntegerPack<T>)shifted);
        return power * (((r * T(0.16666721) + T(0.50001617)) * r + T(1)) * r) + power;
    }
#endif
    Pack<T> p;
    if constexpr (is_float) {  // the best of degree 6 in relative error (3e-9)
        p = r * T(1.381454006e-3) + T(8.368745110e-3);
        p = p * r + T(4.166839079e-2);
        p = p * r + T(1.666652040e-1);
        p = p * r + T(4.999999343e-1);
    } else {  // the series
        constexpr T coefficients[] = {
            T(1.0 / 479001600), T(1.0 / 39916800), T(1.0 / 3628800), T(1.0 / 362880), T(1.0 / 40320), T(1.0 / 5040),
            T(1.0 / 720),       T(1.0 / 120),      T(1.0 / 24),      T(1.0 / 6),      T(0.5)};
        p = all(T(1.0 / 6227020800.0));
        for (const T c : coefficients) p = p * r + c;
    }
    p = (p * r + T(1)) * r + T(1);
    return p * (Pack<T>)((IntegerPack<T>)shifted << mantissa_bits);
}

/// exp(x); infinity above exp_limit.
template <class T>
NORMPLACE_INLINE Pack<T> exp(Pack<T> x) {
    return x > exp_limit<T> ? all(std::numeric_limits<T>::infinity()) : bounded_exp<T>(x);
}
