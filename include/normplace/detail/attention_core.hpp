// SPDX-License-Identifier: BSD-3-Clause
//
// softmax(Q K^T / sqrt(K)) V and its gradient, tile by tile, so that memory grows with the length of a sequence and not
// with its square (Dao et al. 2022, arXiv:2205.14135). Per query, forward leaves one number, the logarithm of the
// softmax's denominator; from it backward makes the weights of a tile again, which is cheaper than to store and load
// them. Tiles above the diagonal of a causal mask are skipped. A tile and its gradient are at most 1 MiB of floats, for
// a second-level cache.
#pragma once

#include <array>
#include <cmath>
#include <limits>

#include <normplace/detail/blas.hpp>
#include <normplace/detail/dropout_mask.hpp>
#include <normplace/detail/kernels.hpp>
#include <normplace/detail/parallel.hpp>
#include <normplace/detail/workspace.hpp>

namespace normplace::detail {

struct AttentionShape {
    std::size_t batch, heads, queries, keys, head_width;
    bool causal;

    std::size_t stride() const { return heads * head_width; }  // from a token to the next
    std::size_t rows() const { return batch * heads; }
    double work() const { return static_cast<double>(rows()) * product_work(queries, keys, head_width); }
};

/// One head of one sequence, and the walk over its tiles.
template <class T>
class AttentionHead {
public:
    /// Taller tiles make better products; under a causal mask the lower ones waste less above the diagonal. (Measured
    /// at K = 64: 97 against 102 GF/s without a mask, and 8 % of the time the other way with one, at 512 tokens.)
    static constexpr std::size_t most_rows = 256, causal_rows = 128, tile_columns = 512;

    AttentionHead(const AttentionShape& shape, std::size_t index, const T* padding)
        : shape_(shape),
          sequence_(index / shape.heads),
          column_(index % shape.heads * shape.head_width),
          padding_(padding ? padding + sequence_ * shape.keys : nullptr) {}

    std::size_t tile_rows() const { return std::min(shape_.queries, shape_.causal ? causal_rows : most_rows); }
    std::size_t tile_size() const { return tile_rows() * std::min(tile_columns, shape_.keys); }

    /// The head's part of a (B, length, H K) tensor, from its token `first` on.
    template <class Pointer>
    Pointer at(Pointer tensor, std::size_t length, std::size_t first) const {
        return tensor + (sequence_ * length + first) * shape_.stride() + column_;
    }
    const T* padding(std::size_t key) const { return padding_ ? padding_ + key : nullptr; }

    /// Keys that the last of the queries before `query_end` sees.
    std::size_t key_end(std::size_t query_end) const {
        return shape_.causal ? std::min(query_end, shape_.keys) : shape_.keys;
    }
    Tile tile(std::size_t query, std::size_t query_end, std::size_t key, std::size_t key_end) const {
        const std::size_t columns = key_end - key;
        return {query_end - query, columns, columns,
                shape_.causal ? static_cast<std::ptrdiff_t>(query + 1) - static_cast<std::ptrdiff_t>(key)
                              : static_cast<std::ptrdiff_t>(columns)};
    }

    // The products of a tile, with Q, K, V and their gradients at the head's columns.

    /// scores (rows, columns) = factor * Q K^T
    void scores(const Tile& tile, T factor, const T* q, const T* k, T* scores) const {
        gemm(Transposed::no, Transposed::yes, tile.rows, tile.columns, shape_.head_width, factor, q, shape_.stride(), k,
             shape_.stride(), T(0), scores, tile.stride);
    }
    /// y (rows, K) = factor * weights V, or += when not `fresh`
    void mix(const Tile& tile, T factor, const T* weights, const T* v, T* y, std::size_t stride, bool fresh) const {
        gemm(Transposed::no, Transposed::no, tile.rows, shape_.head_width, tile.columns, factor, weights, tile.stride,
             v, shape_.stride(), fresh ? T(0) : T(1), y, stride);
    }
    /// y (columns, K) += factor * weights^T Q
    void mix_back(const Tile& tile, T factor, const T* weights, const T* q, T* y) const {
        gemm(Transposed::yes, Transposed::no, tile.columns, shape_.head_width, tile.rows, factor, weights, tile.stride,
             q, shape_.stride(), T(1), y, shape_.head_width);
    }
    void clear(T* y, std::size_t rows) const {
        for (std::size_t r = 0; r < rows; ++r) std::fill_n(y + r * shape_.stride(), shape_.head_width, T(0));
    }
    /// y, at the head's columns, = x (rows, K)
    void put(const T* x, std::size_t rows, T* y) const {
        for (std::size_t r = 0; r < rows; ++r)
            std::copy_n(x + r * shape_.head_width, shape_.head_width, y + r * shape_.stride());
    }
    void scale_rows(T* y, std::size_t rows, const T* factors) const {
        NORMPLACE_KERNEL(scale_rows, y, rows, shape_.stride(), shape_.head_width, factors);
    }
    T scale() const { return T(1) / std::sqrt(static_cast<T>(shape_.head_width)); }

private:
    const AttentionShape& shape_;
    std::size_t sequence_, column_;
    const T* padding_;
};

/// The dropout of one head's weights: that of query i and key j depends on the mask's seed, on the head's row in (B H)
/// and on i and j.
template <class T>
class HeadDropout {
public:
    HeadDropout(const DropoutMask& mask, std::size_t index) : mask_(mask), seed_(seed_at(mask.seed, index)) {}

    /// run(dropout), with what a kernel takes for the tile at `query`, `key`.
    template <class Run>
    void on_tile(std::size_t query, std::size_t rows, std::size_t key, const Run& run) const {
        if (mask_.threshold == 0) return run(NoDropout{});
        std::array<std::uint64_t, AttentionHead<T>::most_rows> seeds;
        for (std::size_t r = 0; r < rows; ++r) seeds[r] = seed_at(seed_, query + r);
        run(TileDropout<T>{seeds.data(), static_cast<std::uint32_t>(key), mask_.threshold,
                           static_cast<T>(mask_.scale)});
    }

private:
    const DropoutMask& mask_;
    std::uint64_t seed_;
};

/// q, y (B, queries, H K); k, v (B, keys, H K); log_total (B H, queries). `padding` (B, keys) is 0 or minus infinity,
/// or null. A query that sees no key gets y = 0 and log_total = +infinity. `mask` is of the weights.
template <class T>
void attention_forward(const AttentionShape& shape, const T* q, const T* k, const T* v, const T* padding, T* y,
                       T* log_total, const DropoutMask& mask = {}) {
    using Head = AttentionHead<T>;
    parallel_for(shape.rows(), threads_for(shape.work()), [&](std::size_t index, std::size_t) {
        const Head head(shape, index, padding);
        const HeadDropout<T> dropout(mask, index);
        const std::size_t queries = shape.queries, keys = shape.keys;
        Scratch<T> weights(head.tile_size());
        std::array<T, Head::most_rows> maximum, total, rescale;
        for (std::size_t i = 0; i < queries; i += head.tile_rows()) {
            const std::size_t i_end = std::min(i + head.tile_rows(), queries), rows = i_end - i;
            T* out = head.at(y, queries, i);
            if (keys == 0) head.clear(out, rows);
            maximum.fill(-std::numeric_limits<T>::infinity());
            total.fill(T(0));
            for (std::size_t j = 0; j < head.key_end(i_end); j += Head::tile_columns) {
                const Tile tile = head.tile(i, i_end, j, std::min(j + Head::tile_columns, head.key_end(i_end)));
                head.scores(tile, head.scale(), head.at(q, queries, i), head.at(k, keys, j), weights.data());
                dropout.on_tile(i, rows, j, [&](const auto& of_tile) {
                    NORMPLACE_KERNEL(softmax_tile, tile, weights.data(), head.padding(j), maximum.data(), total.data(),
                                     rescale.data(), of_tile);
                });
                if (j > 0) head.scale_rows(out, rows, rescale.data());
                head.mix(tile, T(1), weights.data(), head.at(v, keys, j), out, shape.stride(), j == 0);
            }
            for (std::size_t r = 0; r < rows; ++r) {
                const bool blind = total[r] == T(0);
                log_total[index * queries + i + r] =
                    blind ? std::numeric_limits<T>::infinity() : maximum[r] + std::log(total[r]);
                rescale[r] = blind ? T(0) : T(1) / total[r];
            }
            head.scale_rows(out, rows, rescale.data());
        }
    });
}

/// Sets dq, dk, dv, given dy = dLoss/dy and what forward was given and left. dq may be q, dk k and dv v: a head's
/// gradients are gathered in this thread's workspace, and written when its queries, keys and values are done with.
template <class T>
void attention_backward(const AttentionShape& shape, const T* q, const T* k, const T* v, const T* padding, const T* y,
                        const T* log_total, const T* dy, T* dq, T* dk, T* dv, const DropoutMask& mask = {}) {
    using Head = AttentionHead<T>;
    parallel_for(shape.rows(), threads_for(2.5 * shape.work()), [&](std::size_t index, std::size_t) {
        const Head head(shape, index, padding);
        const HeadDropout<T> dropout(mask, index);
        const std::size_t queries = shape.queries, keys = shape.keys, width = shape.head_width;
        Scratch<T> weights(head.tile_size()), gradient(head.tile_size()), projection(queries);
        Scratch<T> dquery(queries * width), dkey(keys * width), dvalue(keys * width);
        if (keys == 0) std::fill_n(dquery.data(), queries * width, T(0));
        std::fill_n(dkey.data(), keys * width, T(0));
        std::fill_n(dvalue.data(), keys * width, T(0));
        NORMPLACE_KERNEL(dot_rows, head.at(dy, queries, 0), head.at(y, queries, 0), queries, shape.stride(), width,
                         projection.data());  // the sum over keys of p dp is dy . y, with dropout as without
        for (std::size_t j = 0; j < keys; j += Head::tile_columns)
            for (std::size_t i = 0; i < queries; i += head.tile_rows()) {
                const std::size_t i_end = std::min(i + head.tile_rows(), queries);
                if (j >= head.key_end(i_end)) continue;
                const Tile tile = head.tile(i, i_end, j, std::min(j + Head::tile_columns, head.key_end(i_end)));
                head.scores(tile, head.scale(), head.at(q, queries, i), head.at(k, keys, j), weights.data());
                head.scores(tile, T(1), head.at(dy, queries, i), head.at(v, keys, j), gradient.data());
                dropout.on_tile(i, tile.rows, j, [&](const auto& of_tile) {
                    NORMPLACE_KERNEL(softmax_backward_tile, tile, weights.data(), gradient.data(), head.padding(j),
                                     log_total + index * queries + i, projection.data() + i, of_tile);
                });
                head.mix_back(tile, T(1), weights.data(), head.at(dy, queries, i), dvalue.data() + j * width);
                head.mix_back(tile, head.scale(), gradient.data(), head.at(q, queries, i), dkey.data() + j * width);
                head.mix(tile, head.scale(), gradient.data(), head.at(k, keys, j), dquery.data() + i * width, width,
                         j == 0);
            }
        head.put(dquery.data(), queries, head.at(dq, queries, 0));
        head.put(dkey.data(), keys, head.at(dk, keys, 0));
        head.put(dvalue.data(), keys, head.at(dv, keys, 0));
    });
}

}  // namespace normplace::detail
