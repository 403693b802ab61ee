// SPDX-License-Identifier: BSD-3-Clause
//
// Softmax over the rows of a tile of scores: scores of some queries (rows) against some keys (columns), scaled already.
// Row r sees its first min(columns, visible + r) columns (a causal mask), of which those with a `mask` of minus
// infinity are padding. What a row does not see becomes 0.

/// Columns that row r of a tile sees.
NORMPLACE_INLINE std::size_t seen_columns(const Tile& tile, std::size_t r) {
    const std::ptrdiff_t seen = tile.visible + static_cast<std::ptrdiff_t>(r);
    return seen <= 0 ? 0 : std::min(tile.columns, static_cast<std::size_t>(seen));
}

/// One step of the online softmax (Milakov and Gimelshein 2018, arXiv:1805.02867): scores become exp(score - maximum),
/// where `maximum` and `total` are a row's over all tiles so far; `rescale` is what earlier tiles' sums are to be
/// multiplied by. Start with maximum = -infinity and total = 0. Dropout is of the weights alone: the total is of all.
template <class T, class Dropout = NoDropout>
void softmax_tile(const Tile& tile, T* scores, const T* mask, T* maximum, T* total, T* rescale,
                  const Dropout& dropout = {}) {
    for (std::size_t r = 0; r < tile.rows; ++r) {
        T* row = scores + r * tile.stride;
        const std::size_t seen = seen_columns(tile, r), whole = seen / lanes<T> * lanes<T>, left = seen - whole;
        constexpr T lowest = -std::numeric_limits<T>::infinity();
        Pack<T> largest = all(lowest);
        for (std::size_t j = 0; j < whole; j += lanes<T>) {
            Pack<T> p = load(row + j);
            if (mask) store(row + j, p += load(mask + j));
            largest = Larger::of(p, largest);
        }
        Pack<T> end = all(lowest);
        if (left) {
            end = load_end(row + whole, left, lowest);
            if (mask) end += load_end(mask + whole, left);
            largest = Larger::of(end, largest);
        }
        const T before = maximum[r], top = std::max(before, reduce<Larger, T>(largest));
        const T shift = top == lowest ? T(0) : top;  // nothing seen yet: exp(-infinity - 0) = 0
        Pack<T> totals{};
        const auto row_dropout = dropout.row(r);
        for (std::size_t j = 0; j < whole; j += lanes<T>) {
            const Pack<T> p = bounded_exp<T>(load(row + j) - shift);
            store(row + j, dropped<T>(p, row_dropout, j));
            totals += p;
        }
        if (left) {
            const Pack<T> p = bounded_exp<T>(end - shift);
            store_end(row + whole, dropped<T>(p, row_dropout, whole), left);
            totals += p;
        }
        for (std::size_t j = seen; j < tile.columns; ++j) row[j] = T(0);
        rescale[r] = before == top ? T(1) : std::exp(before - shift);
        total[r] = total[r] * rescale[r] + sum<T>(totals);
        maximum[r] = top;
    }
}

/// Backward through the same tile: scores become the weights p = exp(score - log_total) after dropout, and `gradient`,
/// which holds dLoss/d(these), becomes dLoss/dscore = p (dp - projection), where dp is the gradient through dropout and
/// projection the row's sum of p dp over all tiles. A row that sees nothing has log_total = +infinity, so its p is 0.
template <class T, class Dropout = NoDropout>
void softmax_backward_tile(const Tile& tile, T* scores, T* gradient, const T* mask, const T* log_total,
                           const T* projection, const Dropout& dropout = {}) {
    for (std::size_t r = 0; r < tile.rows; ++r) {
        T *row = scores + r * tile.stride, *d = gradient + r * tile.stride;
        const std::size_t seen = seen_columns(tile, r), whole = seen / lanes<T> * lanes<T>, left = seen - whole;
        const auto row_dropout = dropout.row(r);
        for (std::size_t j = 0; j < whole; j += lanes<T>) {
            Pack<T> score = load(row + j);
            if (mask) score += load(mask + j);
            const Pack<T> p = bounded_exp<T>(score - log_total[r]);
            store(row + j, dropped<T>(p, row_dropout, j));
            store(d + j, p * (dropped<T>(load(d + j), row_dropout, j) - projection[r]));
        }
        if (left) {
            Pack<T> score = load_end(row + whole, left);
            if (mask) score += load_end(mask + whole, left);
            const Pack<T> p = bounded_exp<T>(score - log_total[r]);
            store_end(row + whole, dropped<T>(p, row_dropout, whole), left);
            store_end(d + whole, p * (dropped<T>(load_end(d + whole, left), row_dropout, whole) - projection[r]), left);
        }
        for (std::size_t j = seen; j < tile.columns; ++j) row[j] = d[j] = T(0);
    }
}

/// The largest of a row; minus infinity of none. A maximum takes several cycles, and does not wait for another pack's.
template <class T>
T largest_of(const T* x, std::size_t count) {
    constexpr T lowest = -std::numeric_limits<T>::infinity();
    if (count < lanes<T>) return reduce<Larger, T>(load_end(x, count, lowest));
    Pack<T> a = load(x + count - lanes<T>), b = a, c = a, d = a;
    std::size_t j = 0;
    for (; j + 4 * lanes<T> <= count; j += 4 * lanes<T>) {
        a = Larger::of(load(x + j), a);
        b = Larger::of(load(x + j + lanes<T>), b);
        c = Larger::of(load(x + j + 2 * lanes<T>), c);
        d = Larger::of(load(x + j + 3 * lanes<T>), d);
    }
    for (; j + lanes<T> <= count; j += lanes<T>) a = Larger::of(load(x + j), a);
    return reduce<Larger, T>(Larger::of(Larger::of(a, b), Larger::of(c, d)));
}

/// The lanes of p from `first` on; 0 in those before.
template <class T>
NORMPLACE_INLINE Pack<T> lanes_from(const Pack<T>& p, std::size_t first) {
    using Integer = typename PackOf<T>::Integer;
    struct Mask {
        Integer bits[2 * lanes<T>]{};
        constexpr Mask() { std::fill_n(bits + lanes<T>, lanes<T>, static_cast<Integer>(-1)); }
    };
    static constexpr Mask mask;
    IntegerPack<T> kept;
    __builtin_memcpy(&kept, mask.bits + lanes<T> - first, sizeof(kept));
    return (Pack<T>)((IntegerPack<T>)p & kept);
}

/// y = exp(x - shift); returns the sum. y may be x.
template <class T>
T exp_row(const T* x, T shift, T* y, std::size_t count) {
    if (count < lanes<T>) {
        const Pack<T> p = exp<T>(load_end(x, count, -std::numeric_limits<T>::infinity()) - shift);
        store_end(y, p, count);
        return sum<T>(p);
    }
    // The last pack reaches back to numbers that the loop has summed, and perhaps overwritten.
    const std::size_t last = count - lanes<T>;
    const Pack<T> end = load(x + last);
    Pack<T> totals{};
    std::size_t j = 0;
    for (; j < last; j += lanes<T>) {
        const Pack<T> p = exp<T>(load(x + j) - shift);
        store(y + j, p);
        totals += p;
    }
    const Pack<T> p = exp<T>(end - shift);
    store(y + last, p);
    return sum<T>(totals + lanes_from<T>(p, j - last));
}

/// y = softmax(x), row by row. y may be x. The largest of a row is looked for while the exponentials of the row before
/// are computed, which leaves the memory little to do.
template <class T>
void softmax_rows(const T* x, T* y, std::size_t rows, std::size_t columns) {
    if (columns < lanes<T>) {
        for (std::size_t r = 0; r < rows; ++r, x += columns, y += columns)
            scale(y, columns, T(1) / exp_row(x, largest_of(x, columns), y, columns));
        return;
    }
    const std::size_t last = columns - lanes<T>;
    T shift = rows ? largest_of(x, columns) : T(0);
    for (std::size_t r = 0; r < rows; ++r, x += columns, y += columns) {
        const T* next = r + 1 < rows ? x + columns : x;
        const Pack<T> end = load(x + last);  // as in exp_row
        Pack<T> totals{}, largest = load(next + last);
        std::size_t j = 0;
        for (; j < last; j += lanes<T>) {
            const Pack<T> p = bounded_exp<T>(load(x + j) - shift);
            largest = Larger::of(load(next + j), largest);
            store(y + j, p);
            totals += p;
        }
        const Pack<T> p = bounded_exp<T>(end - shift);
        store(y + last, p);
        shift = reduce<Larger, T>(largest);
        scale(y, columns, T(1) / sum<T>(totals + lanes_from<T>(p, j - last)));
    }
}
