// SPDX-License-Identifier: BSD-3-Clause
//
// Covariances between tokens, the estimator's state: K_ij = E x_i x_j per component, for all pairs of the batch's
// tokens. Pairs that are alike are kept once. A layout says which pairs those are: three numbers when all tokens are
// exchangeable, two S x S blocks for random tokens under a causal mask, one block for each pair of sequences of a text.
#pragma once

#include <cstddef>
#include <vector>

#include <normplace/analysis/short_array.hpp>

namespace normplace {

/// One entry for each kept pair, block after block, as the layout has them.
using TokenKernel = detail::ShortArray;
/// One number for each class of tokens.
using PerToken = detail::ShortArray;

class TokenLayout {
public:
    struct Block {
        std::size_t first;        ///< index of its first entry
        std::size_t row, column;  ///< class of its first row and of its first column
        std::size_t size;         ///< size x size entries, row-major
        double multiplicity;      ///< how many pairs of the batch each entry stands for
        bool within;              ///< rows and columns are the same sequence's tokens
    };

    /// All tokens alike: diagonal, within a sequence, across sequences.
    static TokenLayout exchangeable(std::size_t batch, std::size_t sequence) {
        TokenLayout layout(batch, sequence, true);
        const double tokens = static_cast<double>(batch * sequence);
        layout.token_weight_ = {tokens};
        layout.diagonal_ = {0};
        layout.add_block(0, 0, 1, tokens, true);
        layout.add_block(0, 0, 1, tokens * static_cast<double>(sequence - 1), true);
        layout.add_block(0, 0, 1, tokens * static_cast<double>(sequence * (batch - 1)), false);
        return layout;
    }
    /// All sequences alike: within a sequence, across sequences.
    static TokenLayout by_position(std::size_t batch, std::size_t sequence) {
        TokenLayout layout(batch, sequence, false);
        const double sequences = static_cast<double>(batch);
        layout.token_weight_ = PerToken(sequence, sequences);
        layout.add_block(0, 0, sequence, sequences, true);
        if (batch > 1) layout.add_block(0, 0, sequence, sequences * (sequences - 1.0), false);
        return layout;
    }
    /// Every token by itself; a pair of different sequences is kept once and stands for both orders.
    static TokenLayout by_token(std::size_t batch, std::size_t sequence) {
        TokenLayout layout(batch, sequence, false);
        layout.token_weight_ = PerToken(batch * sequence, 1.0);
        for (std::size_t b = 0; b < batch; ++b) layout.add_block(b * sequence, b * sequence, sequence, 1.0, true);
        for (std::size_t b = 0; b < batch; ++b)
            for (std::size_t c = b + 1; c < batch; ++c)
                layout.add_block(b * sequence, c * sequence, sequence, 2.0, false);
        return layout;
    }

    bool is_exchangeable() const { return exchangeable_; }
    /// Whether a class is all tokens at one position.
    bool alike_by_position() const { return !exchangeable_ && classes() == sequence_ && blocks_.size() <= 2; }
    std::size_t batch() const { return batch_; }
    std::size_t sequence() const { return sequence_; }
    double tokens() const { return static_cast<double>(batch_ * sequence_); }
    std::size_t classes() const { return token_weight_.size(); }
    std::size_t entries() const { return entries_; }
    const std::vector<Block>& blocks() const { return blocks_; }
    /// The entry that holds K_ii of a class of tokens.
    std::size_t diagonal(std::size_t token) const { return diagonal_[token]; }

    PerToken diagonal_of(const TokenKernel& kernel) const {
        PerToken result(classes());
        for (std::size_t i = 0; i < classes(); ++i) result[i] = kernel[diagonal_[i]];
        return result;
    }

    /// function(entry, row's class, column's class) for each entry.
    template <class Function>
    void for_each_entry(Function&& function) const {
        if (exchangeable_) {  // its blocks have one entry each: their loops took a seventh of all time
            for (std::size_t entry = 0; entry < 3; ++entry) function(entry, 0, 0);
            return;
        }
        for (const Block& block : blocks_) {
            std::size_t entry = block.first;
            for (std::size_t i = 0; i < block.size; ++i)
                for (std::size_t j = 0; j < block.size; ++j) function(entry++, block.row + i, block.column + j);
        }
    }

    /// sum_ij G_ij K_ij over all pairs of the batch.
    double inner(const TokenKernel& g, const TokenKernel& k) const {
        double sum = 0.0;
        for (const Block& block : blocks_) {
            double part = 0.0;
            for (std::size_t e = block.first; e < block.first + block.size * block.size; ++e) part += g[e] * k[e];
            if (block.multiplicity > 0.0) sum += block.multiplicity * part;
        }
        return sum;
    }
    /// sum_ij G_ij.
    double total(const TokenKernel& g) const { return total(g, false); }
    /// sum_ij G_ij over pairs within one sequence, i = j included.
    double total_within(const TokenKernel& g) const { return total(g, true); }
    /// sum_i K_ii.
    double trace(const TokenKernel& k) const {
        double sum = 0.0;
        for (std::size_t i = 0; i < classes(); ++i) sum += token_weight_[i] * k[diagonal_[i]];
        return sum;
    }

private:
    TokenLayout(std::size_t batch, std::size_t sequence, bool exchangeable)
        : batch_(batch), sequence_(sequence), exchangeable_(exchangeable) {}

    void add_block(std::size_t row, std::size_t column, std::size_t size, double multiplicity, bool within) {
        if (within && !exchangeable_)
            for (std::size_t i = 0; i < size; ++i) diagonal_.push_back(entries_ + i * (size + 1));
        blocks_.push_back({entries_, row, column, size, multiplicity, within});
        entries_ += size * size;
    }
    double total(const TokenKernel& g, bool only_within) const {
        double sum = 0.0;
        for (const Block& block : blocks_) {
            if ((only_within && !block.within) || !(block.multiplicity > 0.0)) continue;
            double part = 0.0;
            for (std::size_t e = block.first; e < block.first + block.size * block.size; ++e) part += g[e];
            sum += block.multiplicity * part;
        }
        return sum;
    }

    std::size_t batch_, sequence_, entries_ = 0;
    bool exchangeable_;
    PerToken token_weight_;
    std::vector<std::size_t> diagonal_;
    std::vector<Block> blocks_;
};

}  // namespace normplace
