// SPDX-License-Identifier: BSD-3-Clause
//
// The norms' rows (nn/norm.hpp has the formulas). Each row stays in the first-level cache from its first reading to its
// last writing, so further passes over it cost little; the sum in `norm(x + f(x))` is made there too. Sums run in two
// packs, since an addition takes several cycles and does not wait for the other's.

/// normalized = (v - mean(v)) * inverse_deviation (v itself is not centred for RMSNorm), with v the sum of the terms at
/// row `row`; y = gain o normalized + bias. `bias` may be null, `y` a term's data.
template <bool centred, class T>
void norm_row(const Term<T>* terms, std::size_t term_count, std::size_t row, std::size_t width, T epsilon,
              const T* gain, const T* bias, T* y, T* normalized, T& inverse_deviation) {
    const std::size_t whole = width - width % lanes<T>, pairs = width - width % (2 * lanes<T>);
    const T count = static_cast<T>(width);
    const T* v = terms[0].data + row * width;
    T* h = normalized + row * width;
    y += row * width;
    if (term_count > 1 || terms[0].factor != T(1)) {
        combine(terms, term_count, normalized, row * width, width);
        v = h;
    }
    const T shift = centred ? v[0] : T(0);
    T mean = 0;  // of v - shift
    if constexpr (centred) {
        Pack<T> even{}, odd{};
        std::size_t i = 0;
        for (; i < pairs; i += 2 * lanes<T>) {
            even += load(v + i) - shift;
            odd += load(v + i + lanes<T>) - shift;
        }
        if (i < whole) even += load(v + i) - shift;
        mean = sum<T>(even + odd);
        for (i = whole; i < width; ++i) mean += v[i] - shift;
        mean /= count;
    }
    Pack<T> even{}, odd{};
    std::size_t i = 0;
    for (; i < pairs; i += 2 * lanes<T>) {
        const Pack<T> a = (load(v + i) - shift) - mean, b = (load(v + i + lanes<T>) - shift) - mean;
        even += a * a;
        odd += b * b;
    }
    if (i < whole) {
        const Pack<T> a = (load(v + i) - shift) - mean;
        even += a * a;
    }
    T squares = sum<T>(even + odd);
    for (i = whole; i < width; ++i) {
        const T a = (v[i] - shift) - mean;
        squares += a * a;
    }
    const T s = T(1) / std::sqrt(squares / count + epsilon);
    inverse_deviation = s;
    if (width < lanes<T>) {
        for (i = 0; i < width; ++i) {
            h[i] = ((v[i] - shift) - mean) * s;
            y[i] = bias ? gain[i] * h[i] + bias[i] : gain[i] * h[i];
        }
        return;
    }
    // Aligned stores; the row's two ends, which these may miss, are computed before anything is overwritten.
    const std::size_t last = width - lanes<T>;
    const Pack<T> first_h = ((load(v) - shift) - mean) * s, last_h = ((load(v + last) - shift) - mean) * s;
    for (i = head_of(y); i <= last; i += lanes<T>) {
        const Pack<T> a = ((load(v + i) - shift) - mean) * s;
        store(h + i, a);
        store(y + i, bias ? load(gain + i) * a + load(bias + i) : load(gain + i) * a);
    }
    store(h, first_h);
    store(h + last, last_h);
    store(y, bias ? load(gain) * first_h + load(bias) : load(gain) * first_h);
    store(y + last, bias ? load(gain + last) * last_h + load(bias + last) : load(gain + last) * last_h);
}

template <bool centred, class T>
void norm_rows(const Term<T>* terms, std::size_t term_count, std::size_t begin, std::size_t end, std::size_t width,
               T epsilon, const T* gain, const T* bias, T* y, T* normalized, T* inverse_deviation) {
    for (std::size_t row = begin; row < end; ++row)
        norm_row<centred>(terms, term_count, row, width, epsilon, gain, bias, y, normalized, inverse_deviation[row]);
}

/// dx = factor * s (g - mean(g) - h mean(g o h)) + the sum of the terms, with g = gain o dy, without mean(g) for
/// RMSNorm; dgain += factor * dy o h, dbias += factor * dy. `dbias` may be null, `dx` may be `dy` or a term's data.
template <bool centred, class T>
void norm_backward_rows(const T* dy, T factor, const Term<T>* terms, std::size_t term_count, std::size_t begin,
                        std::size_t end, std::size_t width, const T* gain, const T* normalized,
                        const T* inverse_deviation, T* dx, T* dgain, T* dbias) {
    const std::size_t whole = width / lanes<T> * lanes<T>;
    const T count = static_cast<T>(width);
    for (std::size_t row = begin; row < end; ++row) {
        const T *d = dy + row * width, *h = normalized + row * width;
        T* out = dx + row * width;
        Pack<T> means{}, projections{};
        std::size_t i = 0;
        for (; i < whole; i += lanes<T>) {
            const Pack<T> di = factor * load(d + i), hi = load(h + i), g = load(gain + i) * di;
            store(dgain + i, load(dgain + i) + di * hi);
            if (dbias) store(dbias + i, load(dbias + i) + di);
            if constexpr (centred) means += g;
            projections += g * hi;
        }
        T mean = sum<T>(means), projection = sum<T>(projections);
        for (; i < width; ++i) {
            const T di = factor * d[i], g = gain[i] * di;
            dgain[i] += di * h[i];
            if (dbias) dbias[i] += di;
            if constexpr (centred) mean += g;
            projection += g * h[i];
        }
        mean /= count;
        projection /= count;
        const T s = inverse_deviation[row];
        const auto d_in = [&](std::size_t at) {
            Pack<T> sum = s * (load(gain + at) * (factor * load(d + at)) - mean - load(h + at) * projection);
            for (std::size_t t = 0; t < term_count; ++t)
                sum += terms[t].factor * load(terms[t].data + row * width + at);
            return sum;
        };
        if (width < lanes<T>) {
            for (i = 0; i < width; ++i) {
                T sum = s * (gain[i] * (factor * d[i]) - mean - h[i] * projection);
                for (std::size_t t = 0; t < term_count; ++t) sum += terms[t].factor * terms[t].data[row * width + i];
                out[i] = sum;
            }
            continue;
        }
        const std::size_t last = width - lanes<T>;
        const Pack<T> first_d = d_in(0), last_d = d_in(last);
        for (i = head_of(out); i <= last; i += lanes<T>) store(out + i, d_in(i));
        store(out, first_d);
        store(out + last, last_d);
    }
}
