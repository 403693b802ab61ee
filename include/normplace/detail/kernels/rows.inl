// SPDX-License-Identifier: BSD-3-Clause
//
// What is done to plain rows: sums of scaled tensors, sums over rows, products of rows.

/// y = sum over the terms of factor * data, for `count` scalars from `offset` on. y may be a term's data.
template <class T>
void combine(const Term<T>* terms, std::size_t term_count, T* y, std::size_t offset, std::size_t count) {
    const std::size_t end = offset + count, head = std::min(end, offset + head_of(y + offset));
    std::size_t i = offset;
    const auto one = [&](std::size_t at) {
        T sum = terms[0].factor * terms[0].data[at];
        for (std::size_t t = 1; t < term_count; ++t) sum += terms[t].factor * terms[t].data[at];
        y[at] = sum;
    };
    for (; i < head; ++i) one(i);
    for (; i + lanes<T> <= end; i += lanes<T>) {
        Pack<T> sum = terms[0].factor * load(terms[0].data + i);
        for (std::size_t t = 1; t < term_count; ++t) sum += terms[t].factor * load(terms[t].data + i);
        store(y + i, sum);
    }
    for (; i < end; ++i) one(i);
}

/// sum[c] += x[r][c] over the rows, for the columns [begin, end). Four rows at a time, so that the sums are read and
/// written a quarter as often.
template <class T>
void add_column_sums(const T* x, std::size_t rows, std::size_t stride, T* sum, std::size_t begin, std::size_t end) {
    std::size_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const T *a = x + r * stride, *b = a + stride, *c = b + stride, *d = c + stride;
        std::size_t i = begin;
        for (; i + lanes<T> <= end; i += lanes<T>)
            store(sum + i, load(sum + i) + ((load(a + i) + load(b + i)) + (load(c + i) + load(d + i))));
        for (; i < end; ++i) sum[i] += (a[i] + b[i]) + (c[i] + d[i]);
    }
    for (; r < rows; ++r)
        for (std::size_t i = begin; i < end; ++i) sum[i] += x[r * stride + i];
}

/// y *= factor
template <class T>
NORMPLACE_INLINE void scale(T* y, std::size_t count, T factor) {
    if (count < lanes<T>) {
        for (std::size_t i = 0; i < count; ++i) y[i] *= factor;
        return;
    }
    const std::size_t last = count - lanes<T>;
    const Pack<T> first_y = load(y) * factor, last_y = load(y + last) * factor;
    for (std::size_t i = head_of(y); i <= last; i += lanes<T>) store(y + i, load(y + i) * factor);
    store(y, first_y);
    store(y + last, last_y);
}

/// y[r] *= factors[r], for rows `stride` apart.
template <class T>
void scale_rows(T* y, std::size_t rows, std::size_t stride, std::size_t width, const T* factors) {
    for (std::size_t r = 0; r < rows; ++r) scale(y + r * stride, width, factors[r]);
}

/// dots[r] = a[r] . b[r], for rows `stride` apart.
template <class T>
void dot_rows(const T* a, const T* b, std::size_t rows, std::size_t stride, std::size_t width, T* dots) {
    for (std::size_t r = 0; r < rows; ++r) {
        Pack<T> products{};
        std::size_t i = 0;
        for (; i + lanes<T> <= width; i += lanes<T>) products += load(a + r * stride + i) * load(b + r * stride + i);
        dots[r] = sum<T>(products);
        for (; i < width; ++i) dots[r] += a[r * stride + i] * b[r * stride + i];
    }
}
