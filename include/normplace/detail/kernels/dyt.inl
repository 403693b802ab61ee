// SPDX-License-Identifier: BSD-3-Clause
//
// The rows of DyT (nn/dyt.hpp has the formula), and tanh without a branch: from |x| = 1/2 on it is (e - 1)/(e + 1) with
// e = exp(2 |x|), below that, where e - 1 would lose digits, x / (1 + x^2/(3 + x^2/(5 + ...))) (Lambert 1761), cut off
// where what is left out is below the last place. Within 2.5 ulp; NaN stays NaN.

template <class T>
NORMPLACE_INLINE Pack<T> tanh(Pack<T> x) {
    constexpr int last = sizeof(T) == 4 ? 7 : 15;  // of 1, 3, 5, ...
    const Pack<T> z = x < T(0) ? -x : x, square = x * x;
    // p/q, the convergents of x^2/(3 + x^2/(5 + ...)): small against 1, so that it matters little that they are
    // rounded.
    Pack<T> p_before = all(T(1)), p{}, q_before{}, q = all(T(1));
    for (int level = 3; level <= last; level += 2) {
        const Pack<T> p_next = static_cast<T>(level) * p + square * p_before;
        const Pack<T> q_next = static_cast<T>(level) * q + square * q_before;
        p_before = p;
        q_before = q;
        p = p_next;
        q = q_next;
    }
    constexpr T most = T(44);  // of 2 |x|: 1 - tanh is far below the last place
    const Pack<T> doubled = z + z, e = bounded_exp<T>(doubled > most ? all(most) : doubled);
    const Pack<T> size = e - T(1);
    return (z < T(0.5) ? x * q : x < T(0) ? -size : size) / (z < T(0.5) ? q + p : e + T(1));
}

/// input = the sum of the terms, normalized = tanh(alpha input), y = gain o normalized + bias. `bias` may be null, `y`
/// a term's data.
template <class T>
void dyt_rows(const Term<T>* terms, std::size_t term_count, std::size_t begin, std::size_t end, std::size_t width,
              T alpha, const T* gain, const T* bias, T* y, T* input, T* normalized) {
    for (std::size_t row = begin * width; row < end * width; row += width) {
        combine(terms, term_count, input, row, width);
        const T* v = input + row;
        T* h = normalized + row;
        std::size_t i = 0;
        for (; i + lanes<T> <= width; i += lanes<T>) store(h + i, tanh<T>(alpha * load(v + i)));
        if (i < width) store_end(h + i, tanh<T>(alpha * load_end(v + i, width - i)), width - i);
        apply_gain(h, width, gain, bias, y + row);
    }
}

/// With u = factor * gain o dy o (1 - normalized^2): dx = alpha u + the sum of the terms, dgain += factor * dy o
/// normalized, dbias += factor * dy, and returned is the sum of u o input, alpha's gradient. `dbias` may be null, `dx`
/// may be `dy` or a term's data.
template <class T>
T dyt_backward_rows(const T* dy, T factor, const Term<T>* terms, std::size_t term_count, std::size_t begin,
                    std::size_t end, std::size_t width, T alpha, const T* gain, const T* input, const T* normalized,
                    T* dx, T* dgain, T* dbias) {
    T dalpha = T(0);
    for (std::size_t row = begin * width; row < end * width; row += width) {
        const T *v = input + row, *h = normalized + row;
        Pack<T> products{};
        std::size_t i = 0;
        for (; i + lanes<T> <= width; i += lanes<T>) {
            const Pack<T> d = factor * load(dy + row + i), hi = load(h + i);
            const Pack<T> u = load(gain + i) * d * (T(1) - hi * hi);
            store(dgain + i, load(dgain + i) + d * hi);
            if (dbias) store(dbias + i, load(dbias + i) + d);
            products += u * load(v + i);
            Pack<T> total = alpha * u;
            for (std::size_t t = 0; t < term_count; ++t) total += terms[t].factor * load(terms[t].data + row + i);
            store(dx + row + i, total);
        }
        dalpha += sum<T>(products);
        for (; i < width; ++i) {
            const T d = factor * dy[row + i], u = gain[i] * d * (T(1) - h[i] * h[i]);
            dgain[i] += d * h[i];
            if (dbias) dbias[i] += d;
            dalpha += u * v[i];
            T total = alpha * u;
            for (std::size_t t = 0; t < term_count; ++t) total += terms[t].factor * terms[t].data[row + i];
            dx[row + i] = total;
        }
    }
    return dalpha;
}
