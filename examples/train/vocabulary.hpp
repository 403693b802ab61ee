// SPDX-License-Identifier: BSD-3-Clause
//
// Text to ids and back: a subword vocabulary (Kudo and Richardson 2018, arXiv:1808.06226), trained from the sentences
// that a model is trained on. Its model is one string, so that a checkpoint can carry it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace training {

struct VocabularyOptions {
    enum class Model {
        unigram,  ///< Kudo 2018, arXiv:1804.10959
        bpe       ///< byte-pair encoding, Sennrich et al. 2016
    };
    std::size_t size = 8000;  ///< pieces, the five special ones included; the corpus may give fewer
    Model model = Model::bpe;
};

class Vocabulary {
public:
    static constexpr int padding = 0, unknown = 1, begin = 2, end = 3, mask = 4;

    /// The same pieces for the same sentences. Every character of theirs has a piece. Text is normalized first (NFKC,
    /// one space between words), so decode() gives a no-break space back as a space.
    /// @throws std::runtime_error when there is no sentence to learn from, or `size` has no room for the characters
    static Vocabulary train(const std::vector<std::string>& sentences, const VocabularyOptions& options = {});

    /// @throws std::runtime_error when the file cannot be read, or is not a model with these special ids
    static Vocabulary load(const std::string& file);

    /// @param model what model() of another gave
    /// @param origin what errors call it
    static Vocabulary from_model(std::string model, const std::string& origin);

    /// Writes the model, which spm_encode and Python's sentencepiece read; whoever reads the file meanwhile finds the
    /// old one or the new one.
    /// @throws std::runtime_error when the file cannot be written
    void save(const std::string& file) const;

    const std::string& model() const { return model_; }
    std::size_t size() const { return size_; }

    /// A sentence for the user when training gave another number of pieces than was asked for; else empty.
    const std::string& notice() const { return notice_; }

    /// Without begin and end.
    std::vector<int> encode(const std::string& sentence) const;

    /// The text of the ids before the first `end`; special ids have none, except that an unknown piece is " ⁇ ".
    /// @throws std::runtime_error when an id is not in the vocabulary
    std::string decode(const std::vector<int>& ids) const;

    /// The text of one id, "▁" for a space: to look at.
    /// @throws std::runtime_error when it is not in the vocabulary
    std::string piece(int id) const;

private:
    Vocabulary() = default;
    void require_known(int id) const;

    std::shared_ptr<const sentencepiece::SentencePieceProcessor> processor_;
    std::string model_, notice_;
    std::size_t size_ = 0;
};

}  // namespace training
