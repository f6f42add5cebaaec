// Nothing of its own: this unit exists so that its precompiled header does.
