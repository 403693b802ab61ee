// SPDX-License-Identifier: BSD-3-Clause
//
// exp without a branch: x = n ln 2 + r with n an integer and |r| <= ln(2)/2, then 2^n times a polynomial in r. Within
// 1 ulp where the result is a normal number; 0 below that range, infinity above (from 88.38 in float, 709.4 in double),
// NaN stays NaN.

template <class T>
NORMPLACE_INLINE Pack<T> exp(Pack<T> x) {
    constexpr bool is_float = sizeof(T) == 4;
    constexpr int mantissa_bits = is_float ? 23 : 52, bias = is_float ? 127 : 1023;
    // A number plus `rounder` has the nearest integer, plus the exponent's bias, in its last bits: shifted to the place
    // of the exponent, where the leading bits fall off, they are 2^n.
    constexpr T rounder = (is_float ? T(12582912.0) : T(6755399441055744.0)) + T(bias);
    constexpr T lowest = is_float ? T(-88.0296919) : T(-709.08956571282410);  // -bias ln 2: there 2^n is 0
    constexpr T highest = is_float ? T(88.7228391) : T(709.78271289338397);   // there it is infinity
    constexpr T ln2_high = is_float ? T(0.693359375) : T(6.93147180369123816490e-01);
    constexpr T ln2_low = is_float ? T(-2.12194440e-4) : T(1.90821492927058770002e-10);

    x = x < all(lowest) ? all(lowest) : x;  // so written, NaN passes both
    x = x > all(highest) ? all(highest) : x;
    Pack<T> shifted = x * T(1.44269504088896340736) + rounder;
    keep(shifted);
    Pack<T> n = shifted - rounder;
    keep(n);
    const Pack<T> r = (x - n * ln2_high) - n * ln2_low;
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
    p = (p * r) * r + (r + T(1));
    return p * (Pack<T>)((IntegerPack<T>)shifted << mantissa_bits);
}
