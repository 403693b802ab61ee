// SPDX-License-Identifier: BSD-3-Clause
//
// One norm that the expressions of a block pass, forward, and their gradients, backward. Most divide a token by the
// root of its second moment q, which at infinite width is a number, the same in all draws. DyT, tanh(alpha e) entry by
// entry, is a regression on its argument: lambda e with lambda = E tanh'(alpha e) alpha, and a part of its own that is
// uncorrelated with everything before it. Its gradient is likewise the mean derivative times the one behind it, and a
// part of its own.
#pragma once

#include <cmath>
#include <cstddef>
#include <utility>

#include <normplace/analysis/block_expressions.hpp>
#include <normplace/analysis/norm_moments.hpp>

namespace normplace {

class PassedNorm {
public:
    /// e becomes start * norm(e). An elementwise norm's own part is that of source `index` (part_of_norm).
    void forward(const NormMoments& norm, std::size_t index, double start, BlockExpressions& block,
                 BlockExpression& e) {
        index_ = index;
        start_ = start;
        if (norm.is_elementwise()) regress(norm, block, e);
        else divide(norm, block, e);
        value_ = e;
        e.scale(start);
    }
    /// The norm's value, before its gain.
    const BlockExpression& value() const { return value_; }

    /// path, of the gradient at start * norm(e), becomes that at e. The result is the gain's and the bias's.
    NormSquares backward(const NormMoments& norm, const BlockExpressions& block, TokenSources& gradients,
                         TokenCombination& path) const {
        const TokenKernel gradient = gradients.between(path, path);
        const NormSquares squares{block.width() * block.layout().inner(gradient, block.covariances(value_)),
                                  block.width() * block.layout().total(gradient)};
        if (norm.is_elementwise()) {
            path.change([&](double& a, std::size_t i) { a *= start_ * root_[i]; });
            TokenKernel own = derivative_;
            for (std::size_t e = 0; e < own.size(); ++e) own[e] *= start_ * start_ * gradient[e];
            gradients.apart[1 + index_] = std::move(own);
            path.add(1.0, gradients.only(gradients.together.streams() + 1 + index_));
        } else {
            path.change([&](double& a, std::size_t i) { a *= start_ * excess_ / root_[i]; });
        }
        return norm.own(squares);
    }

private:
    void divide(const NormMoments& norm, const BlockExpressions& block, BlockExpression& e) {
        root_ = block.squares(e);
        for (double& q : root_) q = norm.root(q);
        excess_ = 1.0;
        if (norm.divides_by_size()) {
            // E 1/q exceeds 1/E q by q's relative variance; against that the Jacobian's projection along the token
            // takes 1/D away. Of a Gaussian vector, whose variance is 2/D, the square so gains 1/D in all, under either
            // norm. That is derived. That the gain is nothing where the stream passes the norm, and all of the variance
            // for a branch alone, are estimates. Measured: Peri-LN's matrices were 1.3 % too low without this factor
            // and are within 0.3 % with it, while one layer's W_q went from 1.001 to 1.011 of the measured.
            if (!block.has_stream(e)) excess_ = std::sqrt(1.0 + block.norm_variance(e));
            block.normalise(e);
        }
        e.change([&](double& a, std::size_t i) { a /= root_[i]; });
    }
    void regress(const NormMoments& norm, BlockExpressions& block, BlockExpression& e) {
        const TokenLayout& layout = block.layout();
        const TokenKernel input = block.covariances(e);
        const PerToken q = layout.diagonal_of(input);
        root_ = PerToken(q.size());
        for (std::size_t i = 0; i < q.size(); ++i) root_[i] = std::sqrt(norm.elementwise(q[i], q[i], 0.0).derivative);
        TokenKernel own(input.size());
        derivative_ = TokenKernel(input.size());
        layout.for_each_entry([&](std::size_t entry, std::size_t i, std::size_t j) {
            const KernelPair pair = norm.elementwise(q[i], q[j], input[entry]);
            own[entry] = pair.value - root_[i] * root_[j] * input[entry];
            derivative_[entry] = pair.derivative - root_[i] * root_[j];
        });
        e.change([&](double& a, std::size_t i) { a *= root_[i]; });
        e.TokenCombination::add(1.0, block.part_of_norm(index_, std::move(own)));
    }

    std::size_t index_ = 0;
    double start_ = 1.0;   // of the gain
    PerToken root_;        // by which it divides; where it is elementwise, the slope by which it multiplies
    double excess_ = 1.0;  // of the root of E 1/q over that of 1/E q
    BlockExpression value_;
    TokenKernel derivative_;  // covariances of the derivatives, less the slopes' product
};

}  // namespace normplace
