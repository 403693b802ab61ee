// SPDX-License-Identifier: BSD-3-Clause
//
// The norms' rows (nn/norm.hpp has the formulas). Each row stays in the first-level cache from its first reading to its
// last writing, so further passes over it cost little; the sum in `norm(x + f(x))` is made there too. Sums run in two
// packs, since an addition takes several cycles and does not wait for the other's.

/// (v - shift) - mean, for scalars and packs; v itself for RMSNorm.
template <bool centred, class V, class T>
NORMPLACE_INLINE V centre(const V& v, T shift, T mean) {
    return centred ? (v - shift) - mean : v;
}

/// The mean of v - shift.
template <class T>
T mean_of(const T* v, std::size_t width, T shift) {
    const std::size_t whole = width - width % lanes<T>, pairs = width - width % (2 * lanes<T>);
    Pack<T> even{}, odd{};
    std::size_t i = 0;
    for (; i < pairs; i += 2 * lanes<T>) {
        even += load(v + i) - shift;
        odd += load(v + i + lanes<T>) - shift;
    }
    if (i < whole) even += load(v + i) - shift;
    T total = sum<T>(even + odd);
    for (i = whole; i < width; ++i) total += v[i] - shift;
    return total / static_cast<T>(width);
}

/// The mean of the centred row's squares.
template <bool centred, class T>
T mean_square_of(const T* v, std::size_t width, T shift, T mean) {
    const std::size_t whole = width - width % lanes<T>, pairs = width - width % (2 * lanes<T>);
    Pack<T> even{}, odd{};
    std::size_t i = 0;
    for (; i < pairs; i += 2 * lanes<T>) {
        const Pack<T> a = centre<centred>(load(v + i), shift, mean);
        const Pack<T> b = centre<centred>(load(v + i + lanes<T>), shift, mean);
        even += a * a;
        odd += b * b;
    }
    if (i < whole) {
        const Pack<T> a = centre<centred>(load(v + i), shift, mean);
        even += a * a;
    }
    T squares = sum<T>(even + odd);
    for (i = whole; i < width; ++i) {
        const T a = centre<centred>(v[i], shift, mean);
        squares += a * a;
    }
    return squares / static_cast<T>(width);
}

/// y[i] = pack_at(i), for a row of a pack or more. Stores are aligned; the row's two ends, which these may miss, are
/// computed before anything is overwritten. Each pack is computed before the last is stored: a processor takes a load
/// for one of what an earlier store, whole pages away, has yet to write, and tensors of the same size often lie so.
template <class T, class PackAt>
NORMPLACE_INLINE void write_row(T* y, std::size_t width, const PackAt& pack_at) {
    const std::size_t last = width - lanes<T>;
    const Pack<T> first_pack = pack_at(0), last_pack = pack_at(last);
    std::size_t i = head_of(y);
    if (i <= last) {
        Pack<T> pack = pack_at(i);
        for (; i + lanes<T> <= last; i += lanes<T>) {
            const Pack<T> next = pack_at(i + lanes<T>);
            store(y + i, pack);
            pack = next;
        }
        store(y + i, pack);
    }
    store(y, first_pack);
    store(y + last, last_pack);
}

/// h = the centred row * s. h may be v.
template <bool centred, class T>
void normalize(const T* v, std::size_t width, T shift, T mean, T s, T* h) {
    if (width >= lanes<T>)
        write_row(h, width, [&](std::size_t i) { return centre<centred>(load(v + i), shift, mean) * s; });
    else
        for (std::size_t i = 0; i < width; ++i) h[i] = centre<centred>(v[i], shift, mean) * s;
}

/// y = gain o h + bias. Whether there is a bias is asked outside: inside, the compiler may fuse multiplication and
/// addition in the loop and not at the row's ends, and the last bit would depend on where y begins.
template <class T>
void apply_gain(const T* h, std::size_t width, const T* gain, const T* bias, T* y) {
    if (width < lanes<T>)
        for (std::size_t i = 0; i < width; ++i) y[i] = bias ? gain[i] * h[i] + bias[i] : gain[i] * h[i];
    else if (bias) write_row(y, width, [&](std::size_t i) { return load(gain + i) * load(h + i) + load(bias + i); });
    else write_row(y, width, [&](std::size_t i) { return load(gain + i) * load(h + i); });
}

/// normalized = (v - mean(v)) * inverse_deviation, with v the sum of the terms, itself where it is not centred; y =
/// gain o normalized + bias. `bias` may be null, `y` a term's data. Where the row is not divided, inverse_deviation is
/// given. Short rows go through each step a few at a time: one's sums and roots take many cycles, in which the
/// processor works on the next.
template <RowNorm norm, class T>
void norm_rows(const Term<T>* terms, std::size_t term_count, std::size_t begin, std::size_t end, std::size_t width,
               T epsilon, const T* gain, const T* bias, T* y, T* normalized, T* inverse_deviation) {
    constexpr bool centred = norm != RowNorm::divided, divided = norm != RowNorm::centred;
    constexpr std::size_t most = 4;
    const std::size_t block = std::clamp<std::size_t>(512 / width, 1, most);
    const bool is_sum = term_count > 1 || terms[0].factor != T(1);
    T shift[most]{}, mean[most]{};
    for (std::size_t first = begin; first < end; first += block) {
        const std::size_t count = std::min(block, end - first);
        const T* v = (is_sum ? normalized : terms[0].data) + first * width;
        T* s = inverse_deviation + first;
        if (is_sum) combine(terms, term_count, normalized, first * width, count * width);
        if constexpr (centred)
            for (std::size_t r = 0; r < count; ++r) {
                shift[r] = v[r * width];
                mean[r] = mean_of(v + r * width, width, shift[r]);
            }
        for (std::size_t r = 0; divided && r < count; ++r)
            s[r] = T(1) / std::sqrt(mean_square_of<centred>(v + r * width, width, shift[r], mean[r]) + epsilon);
        T* h = normalized + first * width;
        for (std::size_t r = 0; r < count; ++r)
            normalize<centred>(v + r * width, width, shift[r], mean[r], s[r], h + r * width);
        for (std::size_t r = 0; r < count; ++r) apply_gain(h + r * width, width, gain, bias, y + (first + r) * width);
    }
}

/// dx = factor * s (g - mean(g) - h mean(g o h)) + the sum of the terms, with g = gain o dy, without mean(g) where the
/// row is not centred, without h mean(g o h) where it is not divided; dgain += factor * dy o h, dbias += factor * dy.
/// `dbias` may be null, `dx` may be `dy` or a term's data.
template <RowNorm norm, class T>
void norm_backward_rows(const T* dy, T factor, const Term<T>* terms, std::size_t term_count, std::size_t begin,
                        std::size_t end, std::size_t width, const T* gain, const T* normalized,
                        const T* inverse_deviation, T* dx, T* dgain, T* dbias) {
    constexpr bool centred = norm != RowNorm::divided, divided = norm != RowNorm::centred;
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
            if constexpr (divided) projections += g * hi;
        }
        T mean = sum<T>(means), projection = sum<T>(projections);
        for (; i < width; ++i) {
            const T di = factor * d[i], g = gain[i] * di;
            dgain[i] += di * h[i];
            if (dbias) dbias[i] += di;
            if constexpr (centred) mean += g;
            if constexpr (divided) projection += g * h[i];
        }
        mean /= count;
        projection /= count;
        const T s = inverse_deviation[row];
        const auto d_in = [&](std::size_t at) {
            Pack<T> centred_g = load(gain + at) * (factor * load(d + at)) - mean;
            if constexpr (divided) centred_g -= load(h + at) * projection;
            Pack<T> sum = s * centred_g;
            for (std::size_t t = 0; t < term_count; ++t)
                sum += terms[t].factor * load(terms[t].data + row * width + at);
            return sum;
        };
        if (width < lanes<T>) {
            for (i = 0; i < width; ++i) {
                T centred_g = gain[i] * (factor * d[i]) - mean;
                if constexpr (divided) centred_g -= h[i] * projection;
                T sum = s * centred_g;
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
