// SPDX-License-Identifier: BSD-3-Clause
//
// Norms inside the sublayers in moments: of queries, keys and values, of the heads, of the hidden units. Behind a
// matrix whose entries are independent Gaussians, a norm does what another scale of that matrix would: the sublayers
// compute with effective scales, and gradients are corrected afterwards. Of order 1/K and 1/F, with heads of width K
// and F hidden units, this neglects that a norm's Jacobian takes away the gradient's part along the token.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include <normplace/analysis/attention_moments.hpp>
#include <normplace/analysis/sublayer_moments.hpp>

namespace normplace::detail {

/// It divides by the root of what a token has there.
struct InnerNorm {
    /// Fan-in times variance of the matrix before it, as if that had brought what the norm does, for an input of second
    /// moment q: what the tokens' second moments differ by is neglected.
    static double effective(double scale, bool normed, double q, double epsilon) {
        return normed ? scale / (scale * q + epsilon) : scale;
    }
    /// Divides entries by the roots of both tokens' second moments.
    static void divide(const TokenLayout& layout, const PerToken& roots, TokenKernel& kernel) {
        layout.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) { kernel[e] /= roots[i] * roots[j]; });
    }
    static PerToken roots(const TokenLayout& layout, const TokenKernel& kernel, double epsilon) {
        PerToken result = layout.diagonal_of(kernel);
        for (double& q : result) q = std::sqrt(q + epsilon);
        return result;
    }
};

/// What attention's projections become under norms of queries, keys and values.
class ProjectionNorms {
public:
    /// @param query_square, memory_square second moments of what W_q, and W_k and W_v, read
    AttentionScales effective(const AttentionScales& given, double query_square, double memory_square) {
        given_ = effective_ = given;
        const auto scale = [&](double s, bool normed, double q) {
            return InnerNorm::effective(s, normed, q, given.epsilon);
        };
        effective_.query = scale(given.query, given.norms.query, query_square);
        effective_.key = scale(given.key, given.norms.key, memory_square);
        effective_.value = scale(given.value, given.norms.value, memory_square);
        return effective_;
    }
    /// From the squares of matrices with the effective scales to those of the given ones, of the norms, and of the
    /// factors behind them: a factor's gradient is that of the query's gain and that of the key's, which are the same
    /// number, in units of sqrt(K), where it starts.
    void correct(AttentionSquares& squares, std::vector<NormSquares>& norms, std::vector<double>& gates) const {
        if (given_.norms.query_key_scale)
            gates.insert(gates.begin(),
                         4.0 * given_.heads / given_.width * squares.wq * effective_.query / given_.width);
        const auto add = [&](bool normed, double effective, double given, double& weight, double* bias,
                             double norm_bias) {
            if (!normed) return;
            norms.push_back({weight * effective / given_.width, norm_bias});
            const double share = given > 0.0 ? effective / given : 0.0;
            weight *= share;
            if (bias) *bias *= share;
        };
        add(given_.norms.query, effective_.query, given_.query, squares.wq, &squares.bq, squares.bq);
        add(given_.norms.key, effective_.key, given_.key, squares.wk, nullptr, 0.0);
        if (given_.norms.key) squares.bk = std::numeric_limits<double>::quiet_NaN();
        add(given_.norms.value, effective_.value, given_.value, squares.wv, &squares.bv, squares.bv);
    }

private:
    AttentionScales given_, effective_;
};

/// What stands between the heads and W_o: a norm and a learned factor for each head.
class HeadsNorm {
public:
    /// heads becomes what W_o reads.
    void forward(const TokenLayout& layout, const AttentionScales& scales, TokenKernel& heads) {
        if (!scales.norms.heads) return;
        roots_ = InnerNorm::roots(layout, heads, scales.epsilon);
        InnerNorm::divide(layout, roots_, heads);
    }
    /// gradient, at what W_o reads, becomes that at the heads' output. `heads` is what W_o reads.
    void backward(const TokenLayout& layout, const AttentionScales& scales, const TokenKernel& heads,
                  TokenKernel& gradient, SublayerMoments& sublayer) const {
        const double square = scales.width * layout.inner(gradient, heads);
        if (scales.norms.heads) {
            sublayer.inner_norms.push_back({square, scales.width * layout.total(gradient)});
            InnerNorm::divide(layout, roots_, gradient);
        }
        // A norm behind them takes away what they have in common, and 1 - 1/H is left.
        const double left = scales.norms.heads || sublayer.before_norm ? 1.0 - 1.0 / scales.heads : 1.0;
        if (scales.norms.head_scale) sublayer.inner_gates.push_back(left * square);
    }

private:
    PerToken roots_;
};

}  // namespace normplace::detail
